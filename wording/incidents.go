package wording

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
)

// incidentWords has a sentence for each entry of a timeline and each step that contains an incident.
var incidentWords = map[codes.Code]func(codes.Params) string{
	incidents.FirstOddUse: func(p codes.Params) string {
		switch address, home := p.Text(rules.ParamAddress), p.Text(rules.ParamHome); {
		case address != "" && home != "":
			return fmt.Sprintf("first use from another address: %s, while %s is in use", address, home)
		case address != "":
			return "first use that is not the owner's, from " + address
		}
		return fmt.Sprintf("first use that is not the owner's (%s)", p.Text(codes.ParamReason))
	},
	incidents.FirstRefusal: func(p codes.Params) string { return "first refusal: " + incidentRequest(p) },
	incidents.FirstSuccess: func(p codes.Params) string { return "first success: " + incidentRequest(p) },
	incidents.Peak: func(p codes.Params) string {
		return fmt.Sprintf("peak: %s within %s", Plural(p.Int(codes.ParamCount), "request"), Spell(p.Duration(codes.ParamBy)))
	},
	incidents.Latest: func(p codes.Params) string {
		switch incidents.State(p.Text(codes.ParamKind)) {
		case incidents.Open:
			return "latest request; the incident is open"
		case incidents.Closed:
			return "latest request; exceptions cover all findings"
		default:
			return "latest request; nothing for an hour after it"
		}
	},
	incidents.Drain:   func(p codes.Params) string { return fmt.Sprintf("Cordon and drain node %s", p.Text(codes.ParamNode)) },
	incidents.Isolate: isolate,
	incidents.RemovePods: func(p codes.Params) string {
		return fmt.Sprintf("Delete the pods of node %s: the Node authorizer allows the objects of a pod only while the pod is bound to the node", p.Text(codes.ParamNode))
	},
	incidents.RemoveRights: func(codes.Params) string {
		return "Remove the binding that allowed the requests, if it still exists; check first what else needs it (nodetrail what-if)"
	},
	incidents.Rotate: func(p codes.Params) string {
		return fmt.Sprintf("Rotate what was read: %s", Plural(p.Int(codes.ParamCount), "object"))
	},
	incidents.Expiry: func(p codes.Params) string {
		return fmt.Sprintf("Find out when the client certificate of node %s expires. A client certificate cannot be revoked: until then its holder can read "+
			"what the pods of the node use, and whatever bindings give the node", p.Text(codes.ParamNode))
	},
	incidents.LookFurther: func(p codes.Params) string {
		return fmt.Sprintf("See what node %s could reach in that time", p.Text(codes.ParamNode))
	},
	incidents.DeleteToken: func(codes.Params) string { return "Delete the bootstrap token" },
	incidents.RevokeUser: func(p codes.Params) string {
		if from := p.All(rules.ParamAddress); len(from) > 0 {
			return "The requests came without a credential. Block the addresses that they came from: " + strings.Join(from, ", ")
		}
		return fmt.Sprintf("Take the credential of %s out of use, where it was issued", p.Text(codes.ParamNode))
	},
}

func isolate(p codes.Params) string {
	s := fmt.Sprintf("Take the machine of node %s off the network", p.Text(codes.ParamNode))
	from := slices.DeleteFunc(p.All(rules.ParamAddress), func(address string) bool { // what runs on an API server's machine comes from there
		a, err := netip.ParseAddr(address)
		return err == nil && a.IsLoopback()
	})
	if len(from) > 0 {
		s += ", and block the addresses that used its credential: " + strings.Join(from, ", ")
	}
	return s
}

// incidentRequest is the request of a moment, with what allowed it and where it came from.
func incidentRequest(p codes.Params) string {
	s := p.Text(rules.ParamObject)
	if s == "" {
		s = p.Text(codes.ParamRule)
	}
	if b := p.Text(codes.ParamBinding); b != "" {
		s += fmt.Sprintf(", allowed by %s %s", p.Text(codes.ParamBindingKind), Qualified(p.Text(codes.ParamBindingNamespace), b))
	}
	if from := p.Text(rules.ParamAddress); from != "" {
		s += ", from " + from
	}
	return s
}
