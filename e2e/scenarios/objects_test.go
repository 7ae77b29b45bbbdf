package scenarios

func object(version, kind, namespace, name string) map[string]any {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": meta}
}

func with(o map[string]any, key string, value any) map[string]any {
	o[key] = value
	return o
}

func secret(namespace, name string) map[string]any {
	return with(object("v1", "Secret", namespace, name), "stringData", map[string]string{"key": "value"})
}

// pod is one on a node that uses secrets as volumes. The scheduler is not asked where the node is given.
func pod(namespace, name, node string, secrets ...string) map[string]any {
	volumes := []any{}
	for _, s := range secrets {
		volumes = append(volumes, map[string]any{"name": s, "secret": map[string]any{"secretName": s}})
	}
	spec := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example/main"}}, "volumes": volumes,
		"terminationGracePeriodSeconds": 1}
	if node != "" {
		spec["nodeName"] = node
	}
	return with(object("v1", "Pod", namespace, name), "spec", spec)
}

func binding(name, role string, subjects ...any) map[string]any {
	b := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name)
	b["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
	return with(b, "subjects", subjects)
}

func serviceAccount(namespace, name string) map[string]any {
	return map[string]any{"kind": "ServiceAccount", "namespace": namespace, "name": name}
}

func group(name string) map[string]any {
	return map[string]any{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name}
}

func clusterRole(name string, rules ...any) map[string]any {
	return with(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", name), "rules", rules)
}

// rule lets do the verbs to resources of a group.
func rule(group, resource string, verbs ...string) map[string]any {
	return map[string]any{"apiGroups": []string{group}, "resources": []string{resource}, "verbs": verbs}
}

func user(name string) map[string]any {
	return map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}
}
