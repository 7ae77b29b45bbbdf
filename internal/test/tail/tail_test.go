package tail

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestBuffer(t *testing.T) {
	var b Buffer
	if b.String() != "" || b.Last(5) != "" {
		t.Error("something is there before")
	}
	_, _ = fmt.Fprint(&b, "first") // it does not fail
	_, _ = fmt.Fprint(&b, " second")
	if b.String() != "first second" || b.Last(6) != "second" || b.Last(100) != "first second" {
		t.Errorf("%q, %q, %q", b.String(), b.Last(6), b.Last(100))
	}
	line := bytes.Repeat([]byte("x"), 999)
	for i := range 5000 {
		_, _ = b.Write(append(line, byte('0'+i%10)))
	}
	if s := b.String(); len(s) < most || len(s) > 3*most || !strings.HasSuffix(s, "x9") {
		t.Errorf("%d bytes are kept, to %q", len(s), b.Last(3))
	}
}

func TestBufferConcurrently(t *testing.T) {
	var b Buffer
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				_, _ = fmt.Fprintln(&b, "line")
				_ = b.String()
			}
		})
	}
	wg.Wait()
	if n := strings.Count(b.String(), "line\n"); n != 400 {
		t.Errorf("%d lines", n)
	}
}
