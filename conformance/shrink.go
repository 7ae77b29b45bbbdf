package conformance

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// runVariant plays a shrunk history again as the failure was found: with the same phase of the comparison.
func runVariant(h *History, v Variant, like *Failure) (Count, *Failure) {
	o := Options{Features: v.Features}
	switch like.Phase {
	case phaseShuffled:
		for seed := range uint64(24) {
			o.Any = like.Any
			o.Shuffle = rand.New(rand.NewPCG(seed, 2))
			if c, f := Run(h, o); f != nil && f.Phase == like.Phase {
				return c, f
			}
		}
		return Count{}, nil
	case phaseTwice:
		o.Twice = true
	case phasePruned:
		for o.Prune = 1; o.Prune <= len(h.Steps); o.Prune++ {
			if c, f := Run(h, o); f != nil && f.Phase == like.Phase {
				return c, f
			}
		}
		return Count{}, nil
	}
	return Run(h, o)
}

// Shrink takes away from a failing history, gates in force, whatever the failure does not need: steps, and what is in the pods.
func Shrink(h *History, v Variant, f *Failure) *History {
	out := &History{Why: h.Why, Gates: h.Gates, Steps: h.Steps, Requests: []Request{f.Request}}
	fails := func(steps []Step) bool {
		_, got := runVariant(&History{Steps: steps, Requests: out.Requests}, v, f)
		return got != nil && got.Phase == f.Phase
	}
	if f.Phase == phaseNow {
		out.Steps = out.Steps[:min(f.Step+1, len(out.Steps))]
	}
	if !fails(out.Steps) {
		return out
	}
	for size := max(len(out.Steps)/2, 1); ; {
		removed := false
		for from := 0; from < len(out.Steps); {
			fewer := slices.Concat(out.Steps[:from], out.Steps[min(from+size, len(out.Steps)):])
			if fails(fewer) {
				out.Steps, removed = fewer, true
			} else {
				from += size
			}
		}
		if size == 1 && !removed {
			break
		}
		size = max(size/2, 1)
	}
	out.Steps = slices.Clone(out.Steps)
	for i := range out.Steps {
		if p := out.Steps[i].Pod; p != nil {
			for _, less := range simplerPods(p) {
				was := out.Steps[i].Pod
				out.Steps[i].Pod = less(was.DeepCopy())
				if !fails(out.Steps) {
					out.Steps[i].Pod = was
				}
			}
		}
	}
	return out
}

// simplerPods are ways to take something away from a pod.
func simplerPods(p *corev1.Pod) []func(*corev1.Pod) *corev1.Pod {
	plain := []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Labels = nil },
		func(p *corev1.Pod) { p.Annotations = nil },
		func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" },
		func(p *corev1.Pod) { p.Spec.ImagePullSecrets = nil },
		func(p *corev1.Pod) { p.Spec.InitContainers = nil },
		func(p *corev1.Pod) { p.Spec.Containers = nil },
		func(p *corev1.Pod) { p.Spec.EphemeralContainers = nil },
		func(p *corev1.Pod) { p.Spec.ResourceClaims = nil },
		func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = nil },
		func(p *corev1.Pod) { setExtendedClaim(p, "", "") },
		func(p *corev1.Pod) { p.Spec.Volumes = nil },
	}
	for i := len(p.Spec.Volumes) - 1; i >= 0; i-- {
		plain = append(plain, func(p *corev1.Pod) {
			if i < len(p.Spec.Volumes) {
				p.Spec.Volumes = slices.Delete(p.Spec.Volumes, i, i+1)
			}
		})
	}
	for i := len(p.Spec.Containers) - 1; i >= 0; i-- {
		plain = append(plain, func(p *corev1.Pod) {
			if i < len(p.Spec.Containers) {
				p.Spec.Containers = slices.Delete(p.Spec.Containers, i, i+1)
			}
		})
	}
	var out []func(*corev1.Pod) *corev1.Pod
	for _, f := range plain {
		out = append(out, func(p *corev1.Pod) *corev1.Pod { f(p); return p })
	}
	return out
}
