package pipeline

// This file is the life of a request, from its first event until everything about it is stored. It is a pure state machine: no clock, no
// memory, no side effects. The scheduler moves requests through it; the partitions and the committer do the actions that it returns.
//
// A request is pending while only its beginning was logged (stage RequestReceived), then it waits for its turn, is judged, and is stored by
// a commit. A stream without a store ([Stream]) dismisses every request once it is judged.
//
// The beginning of a pending request can be stored, too, so that the batches that brought it do not wait for the response, which may come
// minutes later. The mark of a state says where that beginning is: nowhere, in the commit under way (~), or in the store (=).
//
// # Batches and partitions
//
// A request belongs to the partition through which it will be stored. A batch that brought an event of the request either waits for it (the
// batch is not complete before the request is judged), is attached to it (the request was judged already and is stored with the batch or
// before it), or relies on it (the commit under way stores the beginning, which is all that the batch needs). When a partition is lost,
// one of these batches, of another partition, takes the request over; if there is none, the request is forgotten, and whoever owns the lost
// partition brings it again.
//
// # Table
//
// The next state of each state at each event. A dot marks a pair that cannot happen.
//
//	                   began responded expired restored found decided dismissed gathered committed moved withdrawn inherited orphaned
//	N   new             P      W         .       P=      J      .        .         .        .        .       .         .        .
//	P   pending         P      W         W       .       .      .        .         P~       .        .       .         P        N
//	P~  pendingSaving   P~     W~        W~      .       .      .        .         .        P=       P~      .         P        N
//	P=  pendingSaved    P=     W=        W=      .       .      .        .         .        .        .       .         .        N
//	W   waiting         W      W         .       .       .      J        O         .        .        .       .         W        N
//	W~  waitingSaving   W~     W~        .       .       .      J~       O         .        W=       W~      W         W~       N
//	W=  waitingSaved    W=     W=        .       .       .      J=       O         .        .        .       W         W=       N
//	J   judged          J      J         .       .       .      .        .         S        .        .       .         J        N
//	J~  judgedSaving    J~     J~        .       .       .      .        .         .        J=       J~      J         J~       N
//	J=  judgedSaved     J=     J=        .       .       .      .        .         S=       .        .       J         J=       N
//	S   storing         S      S         .       .       .      .        .         .        O        S       .         J        N
//	S=  storingSaved    S=     S=        .       .       .      .        .         .        O        S=      S         J=       N
//	O   over            O      O         .       O       .      .        .         .        .        .       .         .        .
//
// A commit that fails is tried again as it is: that is no event.

// state is where a request is in its life.
type state uint8

const (
	stateImpossible    state = iota // no state: what the table has for pairs that cannot happen
	stateUnknown                    // nothing of it has come, or everything of it was forgotten
	statePending                    // only its beginning was logged
	statePendingSaving              // and the commit under way stores the beginning
	statePendingSaved               // and the beginning is stored
	stateWaiting                    // until it is due
	stateWaitingSaving
	stateWaitingSaved
	stateJudged // the next commit stores it
	stateJudgedSaving
	stateJudgedSaved
	stateStoring      // the commit under way stores it
	stateStoringSaved // and deletes the stored beginning
	stateOver         // stored, or nothing of it is to be stored: only its identity is remembered
	numStates
)

func (s state) isPending() bool { return statePending <= s && s <= statePendingSaved }
func (s state) isWaiting() bool { return stateWaiting <= s && s <= stateWaitingSaved }
func (s state) isJudged() bool  { return stateJudged <= s && s <= stateJudgedSaved }
func (s state) isStoring() bool { return s == stateStoring || s == stateStoringSaved }
func (s state) isSaving() bool {
	return s == statePendingSaving || s == stateWaitingSaving || s == stateJudgedSaving
}
func (s state) isSaved() bool {
	return s == statePendingSaved || s == stateWaitingSaved || s == stateJudgedSaved || s == stateStoringSaved
}

// isInFlight reports whether the request is kept track of.
func (s state) isInFlight() bool { return statePending <= s && s < stateOver }

// event is what happens to a request.
type event uint8

const (
	eventBegan     event = iota // an event of its first stage came
	eventResponded              // an event of a later stage came
	eventExpired                // its response has not come for too long, or too many requests are pending
	eventRestored               // the store has its beginning
	eventFound                  // a finding without a request, which has only to be stored
	eventDecided                // it was judged, and there is something to store
	eventDismissed              // it was judged, and there is nothing to store
	eventGathered               // a commit was made
	eventCommitted              // the commit is stored
	eventMoved                  // the partition of the commit that stores it was lost, another one of the same commit stores it instead
	eventWithdrawn              // the partition that stores its beginning was lost
	eventInherited              // its partition was lost, a batch of another one takes it over
	eventOrphaned               // its partition was lost, and nobody takes it over
	numEvents
)

// action is a set of things to do after a transition, in the order of their bits.
type action uint16

const (
	doOwn      action = 1 << iota // the batch's partition stores what is judged of it
	doRecall                      // the batches that relied on its beginning wait for it
	doWait                        // the batch waits for it to be judged
	doAttach                      // the batch takes it over if its partition is lost
	doRely                        // the batch relies on its beginning being stored, unless both are of one partition
	doFree                        // no batch waits for it any more
	doSave                        // the commit stores its beginning
	doSettle                      // no batch relies on the commit any more
	doEnter                       // the next commit of its partition stores it
	doStore                       // the commit stores it
	doResolve                     // the partition that keeps its beginning deletes that, with its next commit
	doRetain                      // the commit does not delete its beginning after all
	doRemember                    // further events of it are duplicates
)

// step is one transition.
type step struct {
	to state
	do action
}

// life is the table.
var life = [numStates][numEvents]step{
	stateUnknown: {
		eventBegan: {statePending, doOwn | doWait}, eventResponded: {stateWaiting, doOwn | doWait}, eventRestored: {statePendingSaved, 0}, eventFound: {stateJudged, doEnter},
	},
	statePending: {
		eventBegan: {statePending, doWait}, eventResponded: {stateWaiting, doOwn | doWait}, eventExpired: {stateWaiting, 0}, eventGathered: {statePendingSaving, doSave | doFree},
		eventInherited: {statePending, 0}, eventOrphaned: {stateUnknown, 0},
	},
	statePendingSaving: {
		eventBegan: {statePendingSaving, doRely}, eventResponded: {stateWaitingSaving, doOwn | doRecall | doWait}, eventExpired: {stateWaitingSaving, doRecall},
		eventCommitted: {statePendingSaved, doSettle}, eventMoved: {statePendingSaving, 0}, eventInherited: {statePending, doRecall}, eventOrphaned: {stateUnknown, 0},
	},
	statePendingSaved: {
		eventBegan: {statePendingSaved, 0}, eventResponded: {stateWaitingSaved, doOwn | doWait}, eventExpired: {stateWaitingSaved, 0}, eventOrphaned: {stateUnknown, 0},
	},
	stateWaiting: {
		eventBegan: {stateWaiting, doWait}, eventResponded: {stateWaiting, doWait}, eventDecided: {stateJudged, doFree | doEnter}, eventDismissed: {stateOver, doFree | doRemember},
		eventInherited: {stateWaiting, 0}, eventOrphaned: {stateUnknown, 0},
	},
	stateWaitingSaving: {
		eventBegan: {stateWaitingSaving, doWait}, eventResponded: {stateWaitingSaving, doWait}, eventDecided: {stateJudgedSaving, doFree | doEnter},
		eventDismissed: {stateOver, doFree | doResolve | doRemember}, eventCommitted: {stateWaitingSaved, doSettle}, eventMoved: {stateWaitingSaving, 0},
		eventWithdrawn: {stateWaiting, 0}, eventInherited: {stateWaitingSaving, 0}, eventOrphaned: {stateUnknown, 0},
	},
	stateWaitingSaved: {
		eventBegan: {stateWaitingSaved, doWait}, eventResponded: {stateWaitingSaved, doWait}, eventDecided: {stateJudgedSaved, doFree | doEnter},
		eventDismissed: {stateOver, doFree | doResolve | doRemember}, eventWithdrawn: {stateWaiting, 0}, eventInherited: {stateWaitingSaved, 0}, eventOrphaned: {stateUnknown, 0},
	},
	stateJudged: {
		eventBegan: {stateJudged, doAttach}, eventResponded: {stateJudged, doAttach}, eventGathered: {stateStoring, doStore}, eventInherited: {stateJudged, doEnter}, eventOrphaned: {stateUnknown, 0},
	},
	stateJudgedSaving: {
		eventBegan: {stateJudgedSaving, doAttach}, eventResponded: {stateJudgedSaving, doAttach}, eventCommitted: {stateJudgedSaved, doSettle}, eventMoved: {stateJudgedSaving, 0},
		eventWithdrawn: {stateJudged, 0}, eventInherited: {stateJudgedSaving, doEnter}, eventOrphaned: {stateUnknown, 0},
	},
	stateJudgedSaved: {
		eventBegan: {stateJudgedSaved, doAttach}, eventResponded: {stateJudgedSaved, doAttach}, eventGathered: {stateStoringSaved, doStore | doResolve},
		eventWithdrawn: {stateJudged, 0}, eventInherited: {stateJudgedSaved, doEnter}, eventOrphaned: {stateUnknown, 0},
	},
	stateStoring: {
		eventBegan: {stateStoring, doAttach}, eventResponded: {stateStoring, doAttach}, eventCommitted: {stateOver, doRemember}, eventMoved: {stateStoring, doStore},
		eventInherited: {stateJudged, doEnter}, eventOrphaned: {stateUnknown, 0},
	},
	stateStoringSaved: {
		eventBegan: {stateStoringSaved, doAttach}, eventResponded: {stateStoringSaved, doAttach}, eventCommitted: {stateOver, doRemember}, eventMoved: {stateStoringSaved, doStore},
		eventWithdrawn: {stateStoring, 0}, eventInherited: {stateJudgedSaved, doRetain | doEnter}, eventOrphaned: {stateUnknown, doRetain},
	},
	stateOver: {
		eventBegan: {stateOver, 0}, eventResponded: {stateOver, 0}, eventRestored: {stateOver, doResolve},
	},
}

// on returns the state after the event and what is to be done; ok is false where the pair cannot happen.
func (s state) on(ev event) (next state, do action, ok bool) {
	t := life[s][ev]
	return t.to, t.do, t.to != stateImpossible
}
