package nodeadmission

// Other stands for the resources that the plugin has nothing to say of, and for subresources that it does not name.
const Other = "(other)"

// KindOf returns resource and subresource as far as the plugin tells them apart, so that there are only so many: clients make names without end.
func KindOf(group, resource, subresource string) (kind, sub string) {
	if !restricted(group, resource) {
		return Other, ""
	}
	switch subresource {
	case "", "status", "eviction", "token", "binding", "ephemeralcontainers", "resize", "approval":
		return resource, subresource
	}
	return resource, Other
}

// Predicts reports whether a refusal with the code and message is the answer: byte for byte, but for a diff of two objects after it.
func (a *Answer) Predicts(code int32, message string) bool {
	if a.Verdict != Deny || a.Code != code || len(message) < len(a.Message) {
		return false
	}
	return message[:len(a.Message)] == a.Message && (a.Prefix || len(message) == len(a.Message))
}
