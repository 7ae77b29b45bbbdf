package play

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Journal is the state that belongs to a log: JSON values, each a watch event as nodetrail record writes it.
type Journal struct {
	Open Opener
	// Log is the path for messages.
	Name string
}

// watchEvent is what is looked at of a watch event. Its object stays as it is.
type watchEvent struct {
	ObservedAt string          `json:"observedAt"`
	Type       string          `json:"type"`
	Object     json.RawMessage `json:"object"`
}

// head is what tells objects apart.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// each hands on the values of the journal in order; each is out's to keep.
func (j *Journal) each(out func(value []byte, e *watchEvent) error) error {
	src, err := j.Open()
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	plain, done, err := unpack(src)
	if err != nil {
		return fmt.Errorf("reading the journal %s: %w", j.Name, err)
	}
	defer done()
	dec := json.NewDecoder(plain)
	for n := 1; ; n++ {
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the journal %s, its value %d: %w", j.Name, n, err)
		}
		var e watchEvent
		if err := json.Unmarshal(value, &e); err != nil || e.Type == "" {
			return fmt.Errorf("the journal %s, its value %d: not a watch event with a type and an object", j.Name, n)
		}
		if err := out(value, &e); err != nil {
			return err
		}
	}
}

// last is the latest observedAt. Where one is missing the journal has no time of its own, and known is false.
func (j *Journal) last() (t time.Time, known bool, err error) {
	known = true
	err = j.each(func(_ []byte, e *watchEvent) error {
		at, err := time.Parse(time.RFC3339Nano, e.ObservedAt)
		known = known && err == nil
		if at.After(t) {
			t = at
		}
		return nil
	})
	return t, known, err
}

// A round is one of the times that a log is played.
type round struct {
	Shift
	// ends is when the next one begins, zero if it is the last.
	ends time.Time
}

// write appends the journal of a round to w. Between rounds all that is there is deleted: the next one begins with its own list.
func (j *Journal) write(w *bufio.Writer, r *round) error {
	alive := map[string][]byte{}
	var order []string
	var buf []byte
	err := j.each(func(value []byte, e *watchEvent) error {
		if !r.ends.IsZero() {
			if key := e.key(); key != "" {
				if _, ok := alive[key]; !ok {
					order = append(order, key)
				}
				alive[key] = e.Object
				if e.Type == "DELETED" {
					alive[key] = nil
				}
			}
		}
		buf = r.Append(buf[:0], value)
		if bytes.IndexByte(buf, '\n') >= 0 { // a value over several lines
			var flat bytes.Buffer
			if err := json.Compact(&flat, buf); err != nil {
				return fmt.Errorf("moving the journal: %w", err)
			}
			buf = flat.Bytes()
		}
		w.Write(buf)
		return w.WriteByte('\n')
	})
	if err != nil || r.ends.IsZero() {
		return err
	}
	at := format(r.ends.Add(-pauseAfterDeletion), 9)
	for _, key := range order {
		object := alive[key]
		if object == nil {
			continue
		}
		buf = append(buf[:0], `{"observedAt":"`+at+`","type":"DELETED","object":`...)
		buf = append(r.Append(buf, object), "}\n"...)
		w.Write(buf)
	}
	return nil
}

// pauseAfterDeletion is how long before the next round the objects of one are deleted: more than what is taken for one and the same moment.
const pauseAfterDeletion = 3 * time.Second

// key is what an ADDED, MODIFIED or DELETED object is known by.
func (e *watchEvent) key() string {
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
	default:
		return ""
	}
	var h head
	if err := json.Unmarshal(e.Object, &h); err != nil {
		return ""
	}
	return strings.Join([]string{h.APIVersion, h.Kind, h.Metadata.Namespace, h.Metadata.Name}, "\x00")
}
