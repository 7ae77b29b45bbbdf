package source

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"
)

// letterLine is a letter about to be written, in pieces so that long data is not copied.
type letterLine struct {
	head []byte // up to the quote that begins the data
	data []byte
	text bool
	size int64 // of the whole line
	cut  bool
}

// letterFrame is what stands before a letter's data.
type letterFrame struct {
	Time     time.Time `json:"time"`
	Source   string    `json:"source"`
	Cause    string    `json:"cause"`
	Size     int64     `json:"size,omitempty"`
	Encoding string    `json:"encoding"`
}

// layOut cuts the data so that the line fits into a file of its own.
func (l *DeadLetter) layOut(letter *Letter) (letterLine, error) {
	const most = 1 << 10 // of the source and of the cause
	frame := letterFrame{
		Time: letter.Time.UTC(), Source: clip(letter.Source, most), Cause: clip(letter.Cause, most),
		Size: letter.Size, Encoding: "base64",
	}
	line := letterLine{data: letter.Data, text: utf8.Valid(letter.Data)}
	room := l.max - minLetterBytes + 2<<10
	if need := line.dataSize(); need > room {
		frame.Size = max(frame.Size, int64(len(letter.Data)))
		line.cut = true
		line.shorten(room)
	}
	if line.text {
		frame.Encoding = "text"
	}
	head, err := json.Marshal(frame)
	if err != nil {
		return letterLine{}, err
	}
	head[len(head)-1] = ','
	head = append(head, `"data":"`...)
	line.head = head
	line.size = int64(len(line.head)) + line.dataSize() + int64(len(letterEnd))
	return line, nil
}

// clip shortens a string to most bytes, between characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// dataSize is the length of the data as it is written.
func (ln *letterLine) dataSize() int64 {
	if !ln.text {
		return int64(base64.StdEncoding.EncodedLen(len(ln.data)))
	}
	var n int64
	for _, c := range ln.data {
		n += escapedLen(c)
	}
	return n
}

// shorten cuts the data down to what fits into room when written.
func (ln *letterLine) shorten(room int64) {
	if !ln.text {
		ln.data = ln.data[:min(int64(len(ln.data)), room/4*3)]
		return
	}
	var n int64
	end := 0
	for end < len(ln.data) {
		if n += escapedLen(ln.data[end]); n > room {
			break
		}
		end++
	}
	for end > 0 && end < len(ln.data) && !utf8.RuneStart(ln.data[end]) {
		end--
	}
	ln.data = ln.data[:end]
}

func (ln *letterLine) write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 64<<10)
	b.Write(ln.head)
	if ln.text {
		for _, c := range ln.data {
			writeEscaped(b, c)
		}
	} else {
		enc := base64.NewEncoder(base64.StdEncoding, b)
		if _, err := enc.Write(ln.data); err != nil {
			return err
		}
		if err := enc.Close(); err != nil {
			return err
		}
	}
	b.WriteString(letterEnd)
	return b.Flush()
}

// escapedLen is how many bytes writeEscaped writes.
func escapedLen(c byte) int64 {
	switch {
	case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
		return 2
	case c < ' ':
		return 6
	}
	return 1
}

// writeEscaped writes one byte of UTF-8 as it stands in a JSON string.
func writeEscaped(b *bufio.Writer, c byte) {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		b.WriteByte('\\')
		b.WriteByte(c)
	case c == '\n':
		b.WriteString(`\n`)
	case c == '\t':
		b.WriteString(`\t`)
	case c == '\r':
		b.WriteString(`\r`)
	case c < ' ':
		b.WriteString(`\u00`)
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	default:
		b.WriteByte(c)
	}
}
