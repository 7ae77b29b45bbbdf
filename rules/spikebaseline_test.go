package rules

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// The values are those of a sum over the binomial distribution, for whole numbers.
func TestBetaInc(t *testing.T) {
	for a := 1; a < 40; a += 3 {
		for b := 1; b < 400; b += 37 {
			for _, x := range []float64{0.0007, 0.01, 0.2, 0.5, 0.9} {
				// I_x(a, b) is the probability of at least a successes in a+b-1 trials.
				n, want := a+b-1, 0.0
				for k := a; k <= n; k++ {
					ln, _ := math.Lgamma(float64(n + 1))
					lk, _ := math.Lgamma(float64(k + 1))
					lm, _ := math.Lgamma(float64(n - k + 1))
					want += math.Exp(ln - lk - lm + float64(k)*math.Log(x) + float64(n-k)*math.Log1p(-x))
				}
				got := betaInc(float64(a), float64(b), x)
				if math.Abs(got-want) > 1e-7*math.Max(want, 1e-8) && math.Abs(got-want) > 1e-11 {
					t.Errorf("betaInc(%d, %d, %g) = %g, want %g", a, b, x, got, want)
				}
			}
		}
	}
	for _, x := range []struct{ x, want float64 }{{0, 0}, {-1, 0}, {math.NaN(), 0}, {1, 1}, {2, 1}} {
		if got := betaInc(2, 3, x.x); got != x.want {
			t.Errorf("betaInc(2, 3, %g) = %g, want %g", x.x, got, x.want)
		}
	}
}

// More is less likely, and a past with more makes the same more likely.
func TestBaseline(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		b := baseline{minutes: float64(rnd.IntN(1440)), prior: spikeRate + rnd.ExpFloat64()*5}
		for range rnd.IntN(100) {
			n := float64(rnd.IntN(200))
			b.sum += n
			b.sq += n * n
		}
		least := b.least(spikeNode)
		if b.tail(float64(least)) >= spikeP || least > spikeNode && b.tail(float64(least-1)) < spikeP {
			t.Fatalf("%+v: the least is %d", b, least)
		}
		last := 1.0
		for n := 1.0; n < 1e7; n *= 3 {
			p := b.tail(n)
			if math.IsNaN(p) || p < 0 || p > last+1e-9 {
				t.Fatalf("%+v: the tail from %g on is %g, before %g", b, n, p, last)
			}
			last = p
		}
		more := b
		more.prior *= 2
		if more.least(1) < b.least(1) {
			t.Fatalf("%+v: with twice the prior less is a spike", b)
		}
	}
}

// The rate of false alarms is what is stated, for denials that come in threes, as those of a pod do.
func TestBaselineIsCalibrated(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	alarms, minutes := 0, 0
	for range effort.Of(200, 40) {
		rate := rnd.ExpFloat64() * 2
		b := baseline{prior: spikeRate}
		for range 1440 {
			n := float64(3 * poisson(rnd, rate))
			if b.minutes > 60 {
				minutes++
				if b.tail(n) < 1e-3 {
					alarms++
				}
			}
			b.minutes++
			b.sum += n
			b.sq += n * n
		}
	}
	if p := float64(alarms) / float64(minutes); p > 2e-3 {
		t.Errorf("%d of %d minutes have a p-value below 1e-3", alarms, minutes)
	}
}

func poisson(rnd *rand.Rand, rate float64) int {
	n, limit := 0, math.Exp(-rate)
	for p := rnd.Float64(); p > limit; p *= rnd.Float64() {
		n++
	}
	return n
}
