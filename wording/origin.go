package wording

import (
	"fmt"
	"net/http"

	"github.com/nodetrail/nodetrail/tally"
)

// originsListed is how many values of each kind a sentence names.
const originsListed = 5

// Who names the users who made the requests of a finding with their groups, such as "system:node:worker-1 (groups system:nodes)"; "" where that is not
// known.
func Who(o *tally.Origins) string {
	if len(o.Users) == 0 {
		return ""
	}
	s := Some(o.Users, 0, originsListed)
	if len(o.Impersonated) > 0 {
		s += " as " + Some(o.Impersonated, 0, originsListed)
	}
	if len(o.Groups) > 0 {
		s += " (groups " + Some(o.Groups, 0, originsListed) + ")"
	}
	return s
}

// From names the addresses from which the requests of a finding came, each with the node that has it; "" where that is not known.
func From(o *tally.Origins) string {
	var all []string
	for _, a := range o.Addresses {
		s := a.Address
		if a.Node != "" {
			s += " (node " + a.Node + ")"
		}
		all = append(all, s)
	}
	return Some(all, 0, originsListed)
}

// Answered says how the API server answered the requests of a finding, such as "200 OK, 404 Not Found"; "" where that is not known.
func Answered(o *tally.Origins) string {
	var all []string
	for _, code := range o.Answers {
		s := fmt.Sprint(code)
		if name := http.StatusText(int(code)); name != "" {
			s += " " + name
		}
		if code == 0 {
			s = "no response in the log"
		}
		all = append(all, s)
	}
	return Some(all, 0, originsListed)
}
