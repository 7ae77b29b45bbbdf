package pipeline

import (
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rules"
)

// witness shows events to a ledger of evidence as they come in, each stage of a request and whatever becomes of it. Nothing is kept of an event,
// and one that comes again changes nothing.
type witness struct {
	ledger *evidence.Ledger // nil for none
	judge  *Judge           // whose memory knows what a kubelet calls itself
}

func (w *witness) see(ev *audit.Event) {
	w.judge.Memory.See(ev)
	if v := w.judge.Versions; v != nil {
		v.see(ev)
	}
	if w.ledger == nil {
		return
	}
	node, _ := nodeid.Of(ev.User.Username, ev.User.Groups)
	if node == "" && ev.ObjectRef.Resource != "leases" && !audit.BringsPod(ev) && !audit.AsksReview(ev) {
		return
	}
	w.ledger.Observe(ev, evidence.Origin{Node: node, Kubelet: node != "" && rules.IsKubelet(rules.Product(ev.UserAgent), w.judge.Memory.Kubelets)})
}

// recall is for how many hours before the latest event an engine's ledger keeps what it was shown, so that few entries are made anew. It means nothing
// for what is stored: there records merge.
const recall = 3 * time.Hour

// changes appends what the ledger saw and did not hand out before, and lets the ledger forget the hours before recall.
func (w *witness) changes(dst []byte, latest time.Time) []byte {
	if w.ledger == nil {
		return nil
	}
	dst = w.ledger.AppendChanges(dst)
	w.ledger.Forget(evidence.HourOf(latest.Add(-recall)))
	return dst
}
