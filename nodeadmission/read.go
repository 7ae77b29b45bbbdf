package nodeadmission

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReadPod reads what the plugin needs of a pod as the API has it; ok is false if it cannot be read.
func ReadPod(data []byte) (p *Pod, ok bool) {
	var o struct {
		Metadata struct {
			Name        string            `json:"name"`
			UID         string            `json:"uid"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			NodeName           string          `json:"nodeName"`
			ServiceAccountName string          `json:"serviceAccountName"`
			Volumes            json.RawMessage `json:"volumes"`
		} `json:"spec"`
		Status map[string]json.RawMessage `json:"status"`
	}
	if !decode(data, &o) {
		return nil, false
	}
	p = &Pod{UID: o.Metadata.UID, Node: o.Spec.NodeName, ServiceAccount: o.Spec.ServiceAccountName, Labels: o.Metadata.Labels}
	_, p.Mirror = o.Metadata.Annotations[mirrorAnnotation]
	if len(o.Spec.Volumes) > 0 {
		if p.Uses, ok = UsesOf(o.Metadata.Name, o.Spec.Volumes); !ok {
			return nil, false
		}
	}
	for key := range o.Status {
		if !slices.Contains(podParts.status, key) {
			delete(o.Status, key)
		}
	}
	if len(o.Status) > 0 {
		var err error
		if p.ClaimStatuses, err = json.Marshal(o.Status); err != nil {
			return nil, false
		}
	}
	return p, true
}

// ReadNode reads what the plugin needs of a Node.
func ReadNode(data []byte) (n *Node, ok bool) {
	var o struct {
		Metadata struct {
			UID             string                  `json:"uid"`
			Labels          map[string]string       `json:"labels"`
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
		Spec struct {
			Taints       []corev1.Taint           `json:"taints"`
			ConfigSource *corev1.NodeConfigSource `json:"configSource"`
		} `json:"spec"`
	}
	if !decode(data, &o) {
		return nil, false
	}
	return &Node{
		UID: o.Metadata.UID, Labels: o.Metadata.Labels, Taints: o.Spec.Taints, Owners: o.Metadata.OwnerReferences, ConfigSource: o.Spec.ConfigSource,
	}, true
}

// ReadClaim reads what the plugin needs of a persistent volume claim: all of it but the managed fields.
func ReadClaim(data []byte) (c *Claim, ok bool) {
	var o struct {
		Spec struct {
			VolumeName string `json:"volumeName"`
		} `json:"spec"`
	}
	var whole document
	if !decode(data, &o) || !decode(data, &whole) {
		return nil, false
	}
	if m, is := whole["metadata"].(document); is {
		delete(m, "managedFields")
	}
	object, err := json.Marshal(whole)
	return &Claim{Volume: o.Spec.VolumeName, Object: object}, err == nil
}

// ReadDriver reads the audiences of a CSIDriver's token requests.
func ReadDriver(data []byte) (audiences *[]string, ok bool) {
	var o struct {
		Spec struct {
			TokenRequests []struct {
				Audience string `json:"audience"`
			} `json:"tokenRequests"`
		} `json:"spec"`
	}
	if !decode(data, &o) {
		return nil, false
	}
	list := []string{}
	for _, r := range o.Spec.TokenRequests {
		list = append(list, r.Audience)
	}
	return &list, true
}
