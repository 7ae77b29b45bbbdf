package rules

import "math"

// The test of a spike. Denials a minute are taken as Poisson, with a rate that is not known: a Gamma distribution whose shape and rate are
// those of the prior and of what was counted. What a minute then holds is negative-binomial, and the p-value is the probability of at least
// as many. Denials do not come one by one (a kubelet asks for all that its pod names, and again): counts are divided by their dispersion
// index, the variance over the mean of those counted, which makes the test that of clusters instead of single denials.

const (
	// spikeP is how unlikely a minute has to be. 5,000 nodes have seven million minutes in a day: by chance it is a few in a day, of which the
	// least counts leave next to none.
	spikeP = 1e-6
	// spikePrior is the prior's weight, in minutes.
	spikePrior = 60
	// The prior's mean is the largest of the next, of what the cluster's nodes have on average, and of what was counted: it keeps a quiet
	// past from making a few denials unlikely, and does not make a steady rate so.
	//
	// spikeRate is the prior's denials a minute and node, at least: so few are no news, whatever the node had before.
	spikeRate = 0.2
	// spikeDispersion is the dispersion index, at least: a pod names about as many objects.
	spikeDispersion = 3
)

// baseline is what a minute is held against.
type baseline struct {
	minutes float64 // that were counted
	sum, sq float64 // of the denials of each
	prior   float64 // denials a minute
}

// tail is the probability of at least n denials in a minute.
func (b *baseline) tail(n float64) float64 {
	phi, minutes := float64(spikeDispersion), max(b.minutes, 1)
	mean := b.sum / minutes
	if mean > 0 {
		phi = max(phi, (b.sq/minutes-mean*mean)/mean)
	}
	shape := (spikePrior*max(b.prior, mean) + b.sum) / phi
	rate := spikePrior + b.minutes
	// P(X >= x) = I_p(x, shape) with p = 1/(1+rate), for real x, too.
	return betaInc(n/phi, shape, 1/(1+rate))
}

// least is the smallest number of denials that is unlikely enough, not less than the given one.
func (b *baseline) least(atLeast int64) int64 {
	lo, hi := atLeast, atLeast
	for b.tail(float64(hi)) >= spikeP && hi < 1<<40 {
		lo, hi = hi+1, hi*2
	}
	for lo < hi {
		if mid := (lo + hi) / 2; b.tail(float64(mid)) < spikeP {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// betaInc is the regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22), evaluated as Lentz does.
func betaInc(a, b, x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // where the fraction converges slowly
		return 1 - betaInc(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 1000 {
		m := float64(i / 2)
		num := 1.0
		switch {
		case i == 0:
		case i%2 == 0:
			num = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			num = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + num*d
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + num/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-10 {
			break
		}
	}
	return front * (f - 1)
}
