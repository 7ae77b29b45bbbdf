package scenario

import (
	"fmt"
	"strings"
	"time"
)

// shortKind is a kind that short lines know.
type shortKind struct {
	short, kind, apiVersion string
	namespaced              bool
	fields                  []string
	fill                    func(o *shortObject, out map[string]any) error
}

func kindNamed(short string) *shortKind {
	bound := []string{"role", "group", "user"}
	for _, k := range []shortKind{
		{"node", "Node", "v1", false, nil, nil},
		{"pod", "Pod", "v1", true, []string{"on", "sa", "secret", "env-secret", "pull-secret", "configmap", "pvc", "generic", "claim", "template",
			"status", "extended", "debug", "mirror", "phase"}, fillPod},
		{"pv", "PersistentVolume", "v1", false, []string{"claim", "stage", "publish", "expand", "controller", "azure"}, fillVolume},
		{"attachment", "VolumeAttachment", "storage.k8s.io/v1", false, []string{"on"}, fillOn},
		{"slice", "ResourceSlice", "resource.k8s.io/v1", false, []string{"on"}, fillOn},
		{"pcr", "PodCertificateRequest", "certificates.k8s.io/v1beta1", true, []string{"on"}, fillOn},
		{"clusterrole", "ClusterRole", "rbac.authorization.k8s.io/v1", false, []string{"allow"}, fillRole},
		{"role", "Role", "rbac.authorization.k8s.io/v1", true, []string{"allow"}, fillRole},
		{"clusterrolebinding", "ClusterRoleBinding", "rbac.authorization.k8s.io/v1", false, bound, fillBinding},
		{"rolebinding", "RoleBinding", "rbac.authorization.k8s.io/v1", true, bound, fillBinding},
	} {
		if k.short == short {
			return &k
		}
	}
	return nil
}

type object = map[string]any

func named(name string) object { return object{"name": name} }

// both splits NS/NAME into a reference.
func both(s string) object {
	ns, name, _ := strings.Cut(s, "/")
	return object{"namespace": ns, "name": name}
}

func secretKey(i int, name string) object {
	return object{"name": fmt.Sprintf("E%d", i), "valueFrom": object{"secretKeyRef": object{"name": name, "key": "k"}}}
}

func fillPod(o *shortObject, out map[string]any) error {
	container := object{"name": "main", "image": "registry.example/app:1"}
	spec, status := object{"containers": []any{container}}, object{"phase": "Running"}
	out["spec"], out["status"] = spec, status
	list := func(field, into string, f func(i int, v string) any) {
		for i, v := range o.fields[field] {
			have, _ := spec[into].([]any)
			spec[into] = append(have, f(i, v))
		}
	}
	if v := o.field("sa"); v != "" {
		spec["serviceAccountName"] = v
	}
	if v := o.field("phase"); v != "" {
		status["phase"] = v
	}
	if o.field("mirror") != "" {
		out["metadata"].(object)["annotations"] = object{"kubernetes.io/config.mirror": "0123456789abcdef", "kubernetes.io/config.source": "file"}
	}
	if v := o.field("on"); v != "" {
		spec["nodeName"] = v
		status["conditions"] = []any{object{"type": "PodScheduled", "status": "True",
			"lastTransitionTime": o.bound.Truncate(time.Second).Format(time.RFC3339)}}
	}
	var env []any
	for i, v := range o.fields["env-secret"] {
		env = append(env, secretKey(i, v))
	}
	if env != nil {
		container["env"] = env
	}
	volume := func(i int, kind string, source object) any {
		return object{"name": fmt.Sprintf("%s-%d", strings.ToLower(kind), i), kind: source}
	}
	list("secret", "volumes", func(i int, v string) any { return volume(i, "secret", object{"secretName": v}) })
	list("configmap", "volumes", func(i int, v string) any { return volume(i, "configMap", named(v)) })
	list("pvc", "volumes", func(i int, v string) any { return volume(i, "persistentVolumeClaim", object{"claimName": v}) })
	list("generic", "volumes", func(_ int, v string) any {
		return object{"name": v, "ephemeral": object{"volumeClaimTemplate": object{}}}
	})
	list("pull-secret", "imagePullSecrets", func(_ int, v string) any { return named(v) })
	list("debug", "ephemeralContainers", func(i int, v string) any {
		return object{"name": fmt.Sprintf("debug-%d", i), "image": "registry.example/debug:1", "env": []any{secretKey(0, v)}}
	})
	list("claim", "resourceClaims", func(_ int, v string) any { return object{"name": v, "resourceClaimName": v} })
	list("template", "resourceClaims", func(_ int, v string) any {
		name, template, _ := strings.Cut(v, ":")
		return object{"name": name, "resourceClaimTemplateName": template}
	})
	var statuses []any
	for _, v := range o.fields["status"] {
		name, claim, _ := strings.Cut(v, ":")
		statuses = append(statuses, object{"name": name, "resourceClaimName": claim})
	}
	if statuses != nil {
		status["resourceClaimStatuses"] = statuses
	}
	if v := o.field("extended"); v != "" {
		status["extendedResourceClaimStatus"] = object{"resourceClaimName": v, "requestMappings": []any{}}
	}
	return nil
}

func fillVolume(o *shortObject, out map[string]any) error {
	spec, status := object{}, object{"phase": "Available"}
	out["spec"], out["status"] = spec, status
	if v := o.field("claim"); v != "" {
		spec["claimRef"] = both(v)
		status["phase"], status["lastPhaseTransitionTime"] = "Bound", o.created.Truncate(time.Second).Format(time.RFC3339)
	}
	csi := object{"driver": "csi.example", "volumeHandle": o.name}
	for field, member := range map[string]string{
		"stage": "nodeStageSecretRef", "publish": "nodePublishSecretRef", "expand": "nodeExpandSecretRef", "controller": "controllerPublishSecretRef",
	} {
		if v := o.field(field); v != "" {
			csi[member] = both(v)
		}
	}
	if v := o.field("azure"); v != "" {
		ns, name, ok := strings.Cut(v, "/")
		file := object{"shareName": "share", "secretName": name}
		if !ok {
			file["secretName"] = ns
		} else {
			file["secretNamespace"] = ns
		}
		spec["azureFile"] = file
		return nil
	}
	spec["csi"] = csi
	return nil
}

func fillOn(o *shortObject, out map[string]any) error {
	if v := o.field("on"); v != "" {
		out["spec"] = object{"nodeName": v}
	}
	return nil
}

func fillRole(o *shortObject, out map[string]any) error {
	rules := []any{}
	for _, v := range o.fields["allow"] {
		parts := strings.Split(v, ":")
		if len(parts) < 2 || len(parts) > 4 {
			return fmt.Errorf("allow=%s is not VERBS:RESOURCES, VERBS:RESOURCES:GROUPS or VERBS:RESOURCES:GROUPS:NAMES", v)
		}
		rule := object{"verbs": strings.Split(parts[0], ","), "resources": strings.Split(parts[1], ","), "apiGroups": []string{""}}
		switch {
		case strings.HasPrefix(parts[1], "/"):
			rule = object{"verbs": strings.Split(parts[0], ","), "nonResourceURLs": strings.Split(parts[1], ",")}
		case len(parts) > 2:
			rule["apiGroups"] = strings.Split(parts[2], ",")
		}
		if len(parts) == 4 {
			rule["resourceNames"] = strings.Split(parts[3], ",")
		}
		rules = append(rules, rule)
	}
	out["rules"] = rules
	return nil
}

func fillBinding(o *shortObject, out map[string]any) error {
	const group = "rbac.authorization.k8s.io"
	role, kind := o.field("role"), "ClusterRole"
	if o.kind.namespaced {
		var is bool
		if role, is = strings.CutPrefix(role, "clusterrole/"); !is {
			kind = "Role"
		}
	}
	if role == "" {
		return fmt.Errorf("a binding has a role")
	}
	out["roleRef"] = object{"apiGroup": group, "kind": kind, "name": role}
	subjects := []any{}
	for _, v := range o.fields["group"] {
		subjects = append(subjects, object{"apiGroup": group, "kind": "Group", "name": v})
	}
	for _, v := range o.fields["user"] {
		subjects = append(subjects, object{"apiGroup": group, "kind": "User", "name": v})
	}
	if len(subjects) > 0 {
		out["subjects"] = subjects
	}
	return nil
}
