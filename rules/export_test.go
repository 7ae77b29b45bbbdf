package rules

// Forget forgets what was found of the request before.
func (r *Request) Forget() { r.client, r.asked, r.signing = "", false, nil }
