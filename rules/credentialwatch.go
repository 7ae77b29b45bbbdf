package rules

import (
	"strconv"
	"time"
)

// longestWatch is the longest watch that a kubelet asks for: at most twice the 30 minutes of pkg/kubelet/util/manager/watch_based_manager.go, since Kubernetes 1.31. All
// other watches, and those of older kubelets, are of 5 to 10 minutes (k8s.io/client-go/tools/cache/reflector.go).
const longestWatch = time.Hour

// watchesTooLong reports whether a node watches an object for longer than a kubelet asks for. The API server authorizes a watch only when it begins, and takes any time
// (k8s.io/apiserver/pkg/endpoints/handlers/get.go): it continues after the node may no longer read the object. The API server multiplies without a look at overflow, too.
func watchesTooLong(r *Request) bool {
	if r.Attrs.Verb != "watch" || !byGraph(r) || !r.Succeeded() {
		return false
	}
	given, _ := r.Event.QueryParameter("timeoutSeconds")
	n, err := strconv.ParseInt(given, 10, 64)
	return err == nil && (n > int64(longestWatch/time.Second) || time.Duration(n)*time.Second > longestWatch)
}
