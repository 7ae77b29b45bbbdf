package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// podScratch holds the names of the pod being decoded, still as parts of the JSON, before they are copied.
type podScratch struct {
	secrets, configMaps, claims []string
	pulls                       []string // the secrets for images, in place of secrets
	generic                     []int    // indexes into claims that hold the name of a generic ephemeral volume
	resourceClaims              []nodeauthz.PodClaim
	statuses                    []corev1.PodResourceClaimStatus
	extended                    *nodeauthz.ExtendedClaim

	// For the admission plugin: what plain volumes lead to, and the JSON of all volumes where one is not plain.
	uses         []nodeadmission.Use
	special      bool
	volumes      []byte
	statusClaims []byte // members of an object
}

// decodePod decodes a pod straight into what nodeauthz.PodOf would have made of the decoded corev1.Pod; the order of the names in its
// lists may differ. It reads about a tenth of what a pod holds and steps over the rest.
func (d *decoder) decodePod(raw []byte, o *object) error {
	t := &d.pod
	*t = podScratch{
		secrets: t.secrets[:0], pulls: t.pulls[:0], configMaps: t.configMaps[:0], claims: t.claims[:0], generic: t.generic[:0],
		resourceClaims: t.resourceClaims[:0], statuses: t.statuses[:0], uses: t.uses[:0], statusClaims: t.statusClaims[:0],
	}
	p := &nodeauthz.Pod{}
	o.pod = p
	var key string
	s := &d.s
	s.Reset(raw)
	for s.Object(); s.Key(&key); {
		switch key {
		case "metadata":
			d.metadata(o, false, func(name string) {
				if name == corev1.MirrorPodAnnotationKey {
					p.Mirror = true
				}
			})
		case "spec":
			d.podSpec(p)
		case "status":
			d.podStatus(o)
		default:
			if !d.typeMember(key, kinds[kindPod].Name, "") {
				s.Skip()
			}
		}
	}
	s.End()
	if err := s.Err(); err != nil {
		return err
	}
	p.Namespace, p.Name, p.UID = o.ref.Namespace, o.ref.Name, o.uid
	for _, i := range t.generic {
		t.claims[i] = p.Name + "-" + t.claims[i]
	}
	// Names of secrets and config maps are likely to be shared with other pods.
	p.NameSecrets(copyNames(t.pulls, d.intern), copyNames(t.secrets, d.intern))
	p.ConfigMaps = copyNames(t.configMaps, d.intern)
	p.PersistentVolumeClaims = copyNames(t.claims, strings.Clone)
	p.ResourceClaims = copyNames(nodeauthz.PodClaims{Claims: t.resourceClaims, Extended: t.extended}.Names(t.statuses), strings.Clone)
	p.ClaimStatuses, p.ExtendedClaimStatus = nodeauthz.ClaimStatusSignature(t.statuses), t.extended.Signature()
	return nil
}

// copyNames copies names, without empty ones.
func copyNames(names []string, clone func(string) string) []string {
	if len(names) == 0 {
		return nil
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		if n != "" {
			out = append(out, clone(n))
		}
	}
	return out
}

func (d *decoder) podSpec(p *nodeauthz.Pod) {
	var key string
	s := &d.s
	if s.Null() {
		return
	}
	for s.Object(); s.Key(&key); {
		switch key {
		case "nodeName":
			if t := d.text(); t != "" {
				p.NodeName = d.intern(t)
			}
		case "serviceAccountName":
			if t := d.text(); t != "" {
				p.ServiceAccountName = d.intern(t)
			}
		case "imagePullSecrets":
			d.each(func() { d.nameInto("name", &d.pod.pulls) })
		case "initContainers", "containers":
			d.each(d.container)
		case "ephemeralContainers":
			p.EphemeralContainers = 0
			d.each(func() {
				p.EphemeralContainers++
				d.container()
			})
		case "volumes":
			start := s.Pos()
			d.each(d.volume)
			d.pod.volumes = s.Slice(start, s.Pos())
		case "resourceClaims":
			d.each(d.resourceClaim)
		default:
			s.Skip()
		}
	}
}

// each calls f at each element of an array; null is an empty one, and an element that is null is passed over by f.
func (d *decoder) each(f func()) {
	s := &d.s
	if s.Null() {
		return
	}
	for s.Array(); s.More(); {
		f()
	}
}

// members calls f with the name of each member of an object and reports whether there is an object at all. f must consume the value.
func (d *decoder) members(f func(key string)) bool {
	s := &d.s
	if s.Null() {
		return false
	}
	var key string
	for s.Object(); s.Key(&key); {
		f(key)
	}
	return true
}

// name reads one member, a string, of an object such as a LocalObjectReference.
func (d *decoder) name(member string) (name string, present bool) {
	present = d.members(func(key string) {
		if key == member {
			if t := d.text(); t != "" {
				name = t
			}
		} else {
			d.s.Skip()
		}
	})
	return name, present
}

func (d *decoder) nameInto(member string, into *[]string) {
	if name, ok := d.name(member); ok {
		*into = append(*into, name)
	}
}

func (d *decoder) container() {
	d.members(func(key string) {
		switch key {
		case "envFrom":
			d.each(func() {
				d.members(func(key string) {
					switch key {
					case "secretRef":
						d.nameInto("name", &d.pod.secrets)
					case "configMapRef":
						d.nameInto("name", &d.pod.configMaps)
					default:
						d.s.Skip()
					}
				})
			})
		case "env":
			d.each(d.environment)
		default:
			d.s.Skip()
		}
	})
}

func (d *decoder) environment() {
	d.members(func(key string) {
		if key != "valueFrom" {
			d.s.Skip()
			return
		}
		d.members(func(key string) {
			switch key {
			case "secretKeyRef":
				d.nameInto("name", &d.pod.secrets)
			case "configMapKeyRef":
				d.nameInto("name", &d.pod.configMaps)
			default:
				d.s.Skip()
			}
		})
	})
}

func (d *decoder) resourceClaim() {
	var c nodeauthz.PodClaim
	var member func(key string)
	member = func(key string) {
		switch key {
		case "name":
			c.Name = d.text()
		case "resourceClaimName":
			c.ClaimName = d.pointer()
		case "resourceClaimTemplateName":
			c.TemplateName = d.pointer()
		case "source": // until Kubernetes 1.30
			d.members(func(key string) {
				if key == "name" || key == "source" {
					d.s.Skip()
				} else {
					member(key)
				}
			})
		default:
			d.s.Skip()
		}
	}
	d.members(member)
	d.pod.resourceClaims = append(d.pod.resourceClaims, c)
}

func (d *decoder) pointer() *string {
	if d.s.Null() {
		return nil
	}
	t := d.s.String()
	return &t
}

func (d *decoder) podStatus(o *object) {
	d.members(func(key string) {
		start := d.s.Pos()
		switch key {
		case "phase":
			phase := corev1.PodPhase(d.text())
			o.finished = phase == corev1.PodSucceeded || phase == corev1.PodFailed
		case "conditions":
			d.each(func() { d.podCondition(o) })
		case "resourceClaimStatuses":
			d.each(func() {
				var c corev1.PodResourceClaimStatus
				d.members(func(key string) {
					switch key {
					case "name":
						c.Name = d.text()
					case "resourceClaimName":
						c.ResourceClaimName = d.pointer()
					default:
						d.s.Skip()
					}
				})
				d.pod.statuses = append(d.pod.statuses, c)
			})
		case "extendedResourceClaimStatus":
			d.extendedClaim()
		default:
			d.s.Skip()
		}
		d.statusClaim(key, start)
	})
}

func (d *decoder) extendedClaim() {
	if d.s.Null() {
		return
	}
	c := &nodeauthz.ExtendedClaim{}
	d.pod.extended = c
	d.members(func(key string) {
		switch key {
		case "resourceClaimName":
			c.ClaimName = d.text()
		case "requestMappings":
			d.each(func() {
				var m nodeauthz.ExtendedClaimMapping
				d.members(func(key string) {
					switch key {
					case "containerName":
						m.Container = d.text()
					case "resourceName":
						m.Resource = d.text()
					case "requestName":
						m.Request = d.text()
					default:
						d.s.Skip()
					}
				})
				c.Mappings = append(c.Mappings, m)
			})
		default:
			d.s.Skip()
		}
	})
}

func (d *decoder) podCondition(o *object) {
	var scheduled, yes bool
	var at int64
	d.members(func(key string) {
		switch key {
		case "type":
			scheduled = d.text() == string(corev1.PodScheduled)
		case "status":
			yes = d.text() == string(corev1.ConditionTrue)
		case "lastTransitionTime":
			at = d.time()
		default:
			d.s.Skip()
		}
	})
	if scheduled && yes {
		o.granted = at
	}
}
