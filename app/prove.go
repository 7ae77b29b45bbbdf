package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// prover makes the checks of what is stored. Safe for concurrent use.
type prover struct {
	store  *store.Store
	config func() *config.Config
	// waivers are those that the configuration does not have.
	waivers []checks.Waiver
	// only are the nodes that the checks are about.
	only onlyNodes
	// turns are those of what reads much of the store, nil where nobody else does.
	turns turns
	// keep is for how many times as long as making them took checks are good, 0 for once.
	keep int

	mu     sync.Mutex
	kept   map[time.Duration]*keptProof
	policy *coverage.Policy // as it was read last
}

type keptProof struct {
	version string
	made    time.Time
	took    time.Duration
	results []checks.Result
}

// newProver returns one for what is asked again and again.
func newProver(s *store.Store, config func() *config.Config) *prover {
	return &prover{store: s, config: config, turns: newTurns(), keep: keepProofs}
}

// facts are those that are stored, with the state of the store: what is read after it is of that state or a later one.
func (p *prover) facts(ctx context.Context) (report.Facts, error) {
	version, err := p.store.Version(ctx)
	if err != nil {
		return report.Facts{}, err
	}
	all, err := p.store.Facts(ctx)
	if err != nil {
		return report.Facts{}, err
	}
	f, err := fromStore(all)
	if err != nil {
		return f, err
	}
	f.StoreVersion = version
	f.MinWindow = p.config().Readiness.MinWindow.D()
	f.Begins, err = storedBegins(ctx, p.store)
	return f, err
}

// prove puts the checks, with waivers applied, into facts that are of the tally of a window that ends with the newest request and begins that
// long before; 0 is all that there is. Where the window is shorter than what is asked for, the checks are of that. Checks that are kept may be of a
// state of the store before f.StoreVersion: then f.Outdated is true.
func (p *prover) prove(ctx context.Context, t *tally.Tally, window time.Duration, f *report.Facts) error {
	ctx, end, err := p.turns.take(ctx)
	if err != nil {
		return err
	}
	defer end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if t != nil {
		f.Gaps = gapsSince(f, t.From)
	}
	if window > 0 && window < f.MinWindow {
		window, t = f.MinWindow, nil
	}
	now := time.Now()
	k := p.kept[window]
	if k == nil || k.version != f.StoreVersion && now.Sub(k.made) > max(freshProofs, time.Duration(p.keep)*k.took) || p.keep == 0 {
		k = &keptProof{version: f.StoreVersion, made: now}
		if k.results, err = p.results(ctx, t, window, f); err != nil {
			return err
		}
		if k.took = time.Since(now); p.kept == nil {
			p.kept = map[time.Duration]*keptProof{}
		}
		const most = 8
		if len(p.kept) >= most {
			clear(p.kept)
		}
		p.kept[window] = k
	}
	f.Outdated = k.version != f.StoreVersion
	f.Exceptions, f.Now, f.Kubelets = exceptionsOf(p.config(), nil), now, p.config().Rules.KubeletUserAgents
	f.Checks, f.Waivers = checks.Apply(k.results, slices.Concat(p.config().Waived(), p.waivers), now)
	return nil
}

// results are those of the checks, without waivers. A nil tally is still to be read.
func (p *prover) results(ctx context.Context, t *tally.Tally, window time.Duration, f *report.Facts) ([]checks.Result, error) {
	newest, err := p.store.Newest(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	own := *f
	if t == nil {
		var from time.Time
		if !newest.IsZero() {
			from = newest.Add(-window)
		}
		if t, err = p.store.Tally(ctx, from, time.Time{}); err != nil {
			return nil, err
		}
		t.EndBy(newest)
		t.Events.Judged = t.Sums.Allow + t.Sums.Deny + t.Sums.Unknown
		own.Events = report.EventsOf(&t.Events)
		own.Lacks = append(slices.DeleteFunc(slices.Clone(own.Lacks), func(g codes.Gap) bool { return g.Code == codes.NamesTogether }), report.Together(t)...)
	}
	c := p.config()
	kept, err := keptOf(c.Readiness.Keep)
	if err != nil {
		return nil, err
	}
	of := proof{minWindow: f.MinWindow, kept: kept, apiservers: c.Readiness.APIServerCount, only: p.only, tally: t, facts: &own, kubelets: c.Rules.KubeletUserAgents, begins: f.Begins, to: newest}
	if t.To.Before(newest) {
		of.to = t.To
	}
	begin := of.to.Add(-of.span())
	since := begin // from when on what somebody did counts: as of a log, for all that the answer is about
	if !t.From.IsZero() && t.From.Before(since) {
		since = t.From
	}
	if of.ledger, err = p.store.Evidence(ctx, begin, of.to); err != nil {
		return nil, err
	}
	if policy, err := p.policy.Again(c.Coverage.PolicyFile); err == nil { // a report is made elsewhere, too, where nobody has the policy
		p.policy, of.policy = policy, policy
	}
	if of.state, err = storedState(ctx, p.store, begin); err != nil {
		return nil, err
	}
	if err := of.storedRaces(ctx, p.store, begin, since); err != nil {
		return nil, err
	}
	if err := of.storedHeld(ctx, p.store, begin); err != nil {
		return nil, err
	}
	uses, err := p.store.RememberedOf(ctx, rememberedUses)
	if err != nil {
		return nil, err
	}
	if err := of.readUses(uses, since); err != nil {
		return nil, err
	}
	members, err := p.store.RememberedOf(ctx, rememberedMembers)
	if err != nil {
		return nil, err
	}
	if err := of.readMembers(members, since); err != nil {
		return nil, err
	}
	refused, err := p.store.RememberedOf(ctx, rememberedRestriction)
	if err != nil {
		return nil, err
	}
	of.restricted = restrictionOf(refused)
	off, err := p.store.RememberedOf(ctx, rememberedOff)
	if err != nil {
		return nil, err
	}
	own.Disabled = offDuring(own.Disabled, off, begin)
	births, err := p.store.RememberedOf(ctx, rememberedBirths)
	if err != nil {
		return nil, err
	}
	of.births = birthsOf(births)
	groups, err := p.store.RememberedOf(ctx, rememberedGroups)
	if err != nil {
		return nil, err
	}
	of.nodeGroups = storedGroups(groups, since)
	written, err := p.store.RememberedOf(ctx, rememberedWritten)
	if err != nil {
		return nil, err
	}
	of.written = storedWritten(written, begin)
	return checks.Run(of.input()), nil
}

// storedState is the latest state proof that was stored, with the gaps of all whose time reaches beyond begin: each analyzer judged by a state of its
// own. It is nil where there is none that can be read.
func storedState(ctx context.Context, s *store.Store, begin time.Time) (*stateProof, error) {
	all, err := s.RememberedOf(ctx, rememberedState)
	if err != nil {
		return nil, err
	}
	var out *stateProof
	var gaps []codes.Gap
	for i := range all {
		one := &stateProof{}
		if err := json.Unmarshal(all[i].Value, one); err != nil || one.Form != formOfState {
			continue // of another version: what it says is not known
		}
		if out == nil || one.To.After(out.To) {
			out = one
		}
		if one.To.Before(begin) {
			continue
		}
		for j := range one.Gaps {
			if g := &one.Gaps[j]; !slices.ContainsFunc(gaps, func(o codes.Gap) bool { return o.Equal(g) }) {
				gaps = append(gaps, *g)
			}
		}
	}
	if out != nil {
		out.Gaps = gaps
	}
	return out, nil
}

// storedSince is what is stored of a kind, if it is from begin on, by what stands under the key: of what was before that, nobody knows.
func storedSince(ctx context.Context, s *store.Store, kind, key string, begin time.Time) (all []tally.Remembered, whole bool, err error) {
	since, err := s.Remembered(ctx, rememberedSince, key)
	if err != nil || since == nil {
		return nil, false, err
	}
	var from time.Time
	if err := from.UnmarshalText(since); err != nil {
		return nil, false, fmt.Errorf("making the checks: since when %s are stored: %w", kind, err)
	}
	if from.After(begin) {
		return nil, false, nil
	}
	all, err = s.RememberedOf(ctx, kind)
	return all, err == nil, err
}

// storedHeld puts the users of credentials in that were stored.
func (p *proof) storedHeld(ctx context.Context, s *store.Store, begin time.Time) error {
	all, whole, err := storedSince(ctx, s, rememberedHolders, sinceHolders, begin)
	if !whole {
		return err
	}
	if p.held, err = storedHolders(all); err != nil {
		return fmt.Errorf("making the checks: %w", err)
	}
	return nil
}

// storedRaces puts the races in that were stored, from since on. They must be stored from begin on.
func (p *proof) storedRaces(ctx context.Context, s *store.Store, begin, since time.Time) error {
	all, whole, err := storedSince(ctx, s, rememberedRaces, sinceRaces, begin)
	if !whole {
		return err
	}
	if p.races, p.racesKnown, err = racesOf(all, since, p.kubelets); err != nil {
		return fmt.Errorf("making the checks: %w", err)
	}
	return nil
}
