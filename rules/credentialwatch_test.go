package rules

import "testing"

// A kubelet's watch is of an hour at most. What the API server reads of the parameter counts, however it is written.
func TestLongWatch(t *testing.T) {
	const one = "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Ddb&watch=true"
	for _, c := range []struct {
		name, what, uri string
		changes         []with
		want            Severity
	}{
		{"a year", "watch secrets shop/db", one + "&timeoutSeconds=31536000", nil, Critical},
		{"a second more than an hour", "watch secrets shop/db", one + "&timeoutSeconds=3601", nil, Critical},
		{"an hour", "watch secrets shop/db", one + "&timeoutSeconds=3600", nil, None},
		{"as a kubelet", "watch secrets shop/db", one + "&timeoutSeconds=433&resourceVersion=4711", nil, None},
		{"as long as the API server likes", "watch secrets shop/db", one, nil, None},
		{"the first counts", "watch secrets shop/db", one + "&timeoutSeconds=99999&timeoutSeconds=300", nil, Critical},
		{"and no other", "watch secrets shop/db", one + "&timeoutSeconds=300&timeoutSeconds=99999", nil, None},
		{"escaped", "watch secrets shop/db", one + "&timeout%53econds=%39%39999", nil, Critical},
		{"after what is none", "watch secrets shop/db", one + "&timeoutSeconds=5;&timeoutSeconds=99999", nil, Critical},
		{"more than a duration holds", "watch secrets shop/db", one + "&timeoutSeconds=9223372036854775807", nil, Critical},
		{"less than a duration holds", "watch secrets shop/db", one + "&timeoutSeconds=-9223372037", nil, Critical},
		{"ends at once", "watch secrets shop/db", one + "&timeoutSeconds=-1", nil, None},
		{"no number", "watch secrets shop/db", one + "&timeoutSeconds=1e9", nil, None},
		{"a ConfigMap", "watch configmaps shop/web", "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Dweb&watch=true&timeoutSeconds=7200", nil, High},
		{"of what everybody may see", "watch services", "/api/v1/services?watch=true&timeoutSeconds=7200", nil, None},
		{"a list", "list secrets shop/db", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Ddb&timeoutSeconds=7200", nil, None},
		{"refused", "watch secrets shop/db", one + "&timeoutSeconds=7200", []with{annotated("forbid", 0), code(403)}, None},
	} {
		r := request(append([]with{does(c.what), code(200), func(r *Request) { r.Event.RequestURI = c.uri }}, c.changes...)...)
		f, found := nodeCredentialMisuse().Find(r, cluster(2), NewMemory())
		if is := found && f.Reason == LongWatch; is != (c.want != None) || is && f.Severity != c.want {
			t.Errorf("%s: %t %+v, want %s", c.name, found, f, c.want)
		}
	}
}
