package nodeadmission

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// model has the versions of an object as plain values.
type model struct{ list []modelVersion }

type modelVersion struct {
	span
	pod *Pod
}

func (m *model) set(v modelVersion) {
	i := 0
	for i < len(m.list) && m.list[i].from <= v.from {
		i++
	}
	switch {
	case i > 0 && reflect.DeepEqual(m.list[i-1].pod, v.pod):
	case i < len(m.list) && reflect.DeepEqual(m.list[i].pod, v.pod):
		m.list[i].span = span{v.from, min(v.until, m.list[i].until)}
	default:
		m.list = slices.Insert(m.list, i, v)
	}
}

func (m *model) prune(before int64) {
	i := sort.Search(len(m.list), func(i int) bool { return m.list[i].until > before })
	switch {
	case len(m.list) > 0 && i == len(m.list) && m.list[i-1].pod == nil:
		m.list = nil
	case i > 1:
		m.list = m.list[i-1:]
	}
}

// at is the look-up where nothing is covered.
func (m *model) at(at int64) (*Pod, Sight) {
	i := 0
	for i < len(m.list) && m.list[i].from <= at {
		i++
	}
	s := Sight{Known: true}
	if i < len(m.list) {
		s.To = m.list[i].from
	}
	if i == 0 {
		s.Known = false
		return nil, s
	}
	v := m.list[i-1]
	if s.From = v.until; at < v.until {
		s.From, s.Unsure = v.from, true
		if s.To == 0 || s.To > v.until {
			s.To = v.until
		}
	}
	s.Known = v.pod != nil // an end that nobody watched may be followed by anything
	return v.pod, s
}

// TestStoreIsAsItsModel sets pods in any order, with intervals of any length, and prunes; all answers are those of a list of plain values. What is forgotten
// makes room for others.
func TestStoreIsAsItsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 4))
	uid := func() string {
		if r.IntN(3) == 0 {
			return strconv.Itoa(r.IntN(3))
		}
		return "0a1b2c3d-4e5f-4678-9abc-def01234567" + strconv.Itoa(r.IntN(3))
	}
	pod := func() *Pod {
		p := &Pod{UID: uid(), Node: "n" + strconv.Itoa(r.IntN(3)), Labels: map[string]string{"a": strconv.Itoa(r.IntN(2))}}
		for range r.IntN(3) {
			p.Uses = append(p.Uses, Use{Kind: []UseKind{UseClaim, UseAudience}[r.IntN(2)], Name: strings.Repeat("c", r.IntN(9)) + strconv.Itoa(r.IntN(3))})
		}
		if r.IntN(8) == 0 {
			p.ClaimStatuses = []byte(strconv.Itoa(r.IntN(2)))
		}
		return p
	}
	answers, pruned := 0, 0
	for range 300 {
		s, models := NewStore(), map[string]*model{}
		for i := range 6 {
			models["p"+strconv.Itoa(i)] = &model{}
		}
		now := int64(time.Second)
		for range 150 {
			name := "p" + strconv.Itoa(r.IntN(len(models)))
			now += int64(r.IntN(1000))
			v := modelVersion{span: span{from: now - int64(r.IntN(5000))}}
			slop := []int64{0, 0, 1 + int64(r.IntN(2000)), 1<<32 - 2 + int64(r.IntN(4)), 1 << 40}[r.IntN(5)]
			v.until = v.from + slop
			if r.IntN(3) > 0 {
				v.pod = pod()
			}
			models[name].set(v)
			s.SetPod("ns", name, v.pod, Moment{Time: time.Unix(0, v.from), Slop: time.Duration(slop)})
			if r.IntN(15) == 0 {
				before := now - int64(r.IntN(20_000))
				s.shared.bound = r.IntN(20)
				s.Prune(time.Unix(0, before))
				for _, m := range models {
					n := len(m.list)
					m.prune(before)
					pruned += n - len(m.list)
				}
			}
			for name, m := range models {
				at := now + 2000 - int64(r.IntN(10_000))
				if r.IntN(5) == 0 {
					at = now + 1<<32 + 1<<uint(r.IntN(41))
				}
				want, sight := m.at(at)
				got, seen := s.Pod("ns", name, time.Unix(0, at))
				if !reflect.DeepEqual(got, want) || seen != sight && want != nil {
					t.Fatalf("%s at %d: %+v %+v, want %+v %+v", name, at, got, seen, want, sight)
				}
				if want == nil {
					continue
				}
				answers++
				if on, exists, _ := s.PodOn("ns", name, "n1", time.Unix(0, at)); !exists || on != (want.Node == "n1") {
					t.Fatalf("%s at %d is on n1: %t %t, want %+v", name, at, on, exists, want)
				}
				id, audience := uid(), "c1"
				first := slices.IndexFunc(want.Uses, func(u Use) bool { return u.Kind == UseAudience })
				asks, _ := s.PodAsksToken("ns", name, want.Node, id, audience, time.Unix(0, at))
				if asks != (want.UID == id && first >= 0 && want.Uses[first].Name == audience) {
					t.Fatalf("%s at %d asks for %s of %s: %t, want %+v", name, at, audience, id, asks, want)
				}
			}
		}
	}
	if answers < 50_000 || pruned < 1000 {
		t.Errorf("%d answers, %d versions were forgotten", answers, pruned)
	}
}
