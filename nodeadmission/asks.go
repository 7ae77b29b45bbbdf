package nodeadmission

// Admits reports whether requests with the verb create, update or delete: only those are put to the plugin.
func Admits(verb string) bool { return operationOf(verb) != opNone }

// ReadsBody reports whether the answer to a request can depend on its body. The name is that of the object, empty where the event has none.
func ReadsBody(verb, group, resource, subresource, name string) bool {
	switch op := operationOf(verb); op {
	case opCreate:
		return restricted(group, resource) && (name == "" || createReads(resource, subresource))
	case opUpdate:
		switch resource {
		case "pods", "persistentvolumeclaims":
			return group == "" && subresource == "status"
		case "nodes":
			return group == ""
		case "csinodes":
			return group == "storage.k8s.io" && subresource == "status"
		}
	}
	return false
}

// createReads reports whether the answer to the creation of a named object of a restricted resource can depend on the body.
func createReads(resource, subresource string) bool {
	switch resource {
	case "pods":
		return subresource == ""
	case "serviceaccounts":
		return subresource == "token"
	case "nodes", "resourceslices", "certificatesigningrequests", "podcertificaterequests":
		return true
	}
	return false
}

// restricted reports whether the plugin has anything to say of the resource.
func restricted(group, resource string) bool {
	switch resource {
	case "pods", "nodes", "persistentvolumeclaims", "serviceaccounts":
		return group == ""
	case "leases":
		return group == "coordination.k8s.io"
	case "csinodes":
		return group == "storage.k8s.io"
	case "resourceslices":
		return group == "resource.k8s.io"
	case "certificatesigningrequests", "podcertificaterequests":
		return group == "certificates.k8s.io"
	}
	return false
}
