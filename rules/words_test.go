package rules

import "k8s.io/apiserver/pkg/authorization/authorizer"

// Say makes the sentence of a finding on a request, which is that of a detection where a is nil. Words are above this package, so a test of the
// package rules_test has to set it.
var Say func(f *Finding, a *authorizer.AttributesRecord, product string, d *Detection) string

func say(r *Request, f *Finding) string { return Say(f, r.Attrs, Product(r.Event.UserAgent), nil) }

func sayDetection(d *Detection) string { return Say(&d.Finding, nil, d.Product, d) }
