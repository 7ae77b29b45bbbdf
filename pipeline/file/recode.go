package file

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// recodeHead is how much of a log shows whether it is an export that is no JSON.
const recodeHead = 16 << 10

// recode returns what r holds as JSON, if it is an export of a log store as CSV or YAML: an object for each record, on the line on which the record
// begins. Otherwise it returns all of r. A record may be as long as two events of bound bytes.
func recode(r io.Reader, bound int) (all io.Reader, recoded bool) {
	b := bufio.NewReaderSize(r, recodeHead)
	head, _ := b.Peek(recodeHead)
	switch {
	case csvColumns(head) != nil:
		limited := &recordLimit{r: b, most: 2*bound + recodeHead}
		c := csv.NewReader(limited)
		c.ReuseRecord = true
		return &recoder{next: (&csvRecords{r: c, limit: limited, columns: csvColumns(head)}).next}, true
	case isEntries(head):
		return &recoder{next: (&yamlRecords{r: b, most: 2 * bound}).next}, true
	}
	return b, false
}

// recoder reads the records that next returns, each with the line on which it begins, counted from 1.
type recoder struct {
	next func() (record []byte, line int, err error)
	line int // that the next byte is on, counted from 0
	left []byte
	err  error
}

func (r *recoder) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		record, line, err := r.next()
		r.err = err
		pad := 0
		if !errors.Is(err, io.EOF) || len(record) > 0 {
			pad = max(0, line-1-r.line)
		}
		r.line += pad
		r.left = append(append(r.left[:0], bytes.Repeat([]byte{'\n'}, pad)...), record...)
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// carrierColumns are those under which exports as CSV have the event: of CloudWatch Logs Insights, Kibana, Splunk and Grafana.
var carrierColumns = []string{"@message", "message", "_source", "_raw", "Line", "line", "log", "body"}

// csvColumns are the columns of an export as CSV, nil if head is not the beginning of one.
func csvColumns(head []byte) []string {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	end := bytes.IndexByte(head, '\n')
	if end < 0 || bytes.ContainsAny(head[:end], "{[\x00") {
		return nil
	}
	columns, err := csv.NewReader(bytes.NewReader(head[:end+1])).Read()
	if err != nil || !slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(carrierColumns, c) }) {
		return nil
	}
	return columns
}

// csvRecords are the rows of a table.
type csvRecords struct {
	r       *csv.Reader
	limit   *recordLimit
	columns []string
	line    int // of the record that was read last
}

func (c *csvRecords) next() ([]byte, int, error) {
	if c.line == 0 {
		c.line = 1
		if _, err := c.r.Read(); err != nil {
			return nil, 0, err
		}
	}
	c.limit.read = 0
	row, err := c.r.Read()
	if err != nil {
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return nil, parse.StartLine, fmt.Errorf("the table is damaged or cut off: %w", parse.Err)
		}
		return nil, c.line + 1, err
	}
	o := map[string]string{}
	for i, v := range row {
		if v != "" && v != "-" {
			o[c.columns[i]] = v
		}
	}
	c.line, _ = c.r.FieldPos(0)
	record, err := json.Marshal(o)
	return record, c.line, err
}

// recordLimit bounds what is read for one record.
type recordLimit struct {
	r          io.Reader
	read, most int
}

func (l *recordLimit) Read(p []byte) (int, error) {
	if l.read > l.most {
		return 0, fmt.Errorf("a record is longer than %d bytes", l.most)
	}
	n, err := l.r.Read(p)
	l.read += n
	return n, err
}

// entryKeys are the keys of a LogEntry of Cloud Logging in YAML, which begin lines.
var entryKeys = regexp.MustCompile(`^(?:---[ \t]*\r?\n\s*)*(?:insertId|labels|logName|operation|protoPayload|receiveTimestamp|resource|severity|timestamp):`)

// isEntries reports whether head is the beginning of what `gcloud logging read` writes: entries in YAML.
func isEntries(head []byte) bool {
	head = bytes.TrimLeft(head, "\r\n")
	return entryKeys.Match(head) && (bytes.Contains(head, []byte("\nlogName:")) || bytes.Contains(head, []byte("\nprotoPayload:")))
}

// yamlRecords are the documents of a stream.
type yamlRecords struct {
	r    *bufio.Reader
	most int
	line int // lines that were read
}

func (y *yamlRecords) next() ([]byte, int, error) {
	var text []byte
	first := 0
	for {
		line, err := y.r.ReadSlice('\n')
		if len(text)+len(line) > y.most {
			return nil, first, fmt.Errorf("an entry is longer than %d bytes", y.most)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			text = append(text, line...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, first, err
		}
		parted := bytes.HasPrefix(line, []byte("---")) && (len(text) == 0 || text[len(text)-1] == '\n')
		if !parted {
			if first == 0 {
				first = y.line + 1
			}
			text = append(text, line...)
		}
		if len(line) > 0 {
			y.line++
		}
		if !parted && err == nil {
			continue
		}
		if len(bytes.TrimSpace(text)) == 0 && err == nil {
			text, first = nil, 0
			continue
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, 0, err
		}
		record, bad := yaml.YAMLToJSON(text)
		if bad != nil {
			return nil, first, fmt.Errorf("the entry that begins there is damaged or cut off: %s", oneLine(bad))
		}
		return record, first, err
	}
}

// yamlPlace is where a parser says that the error is, within the document.
var yamlPlace = regexp.MustCompile(`(?:error converting YAML to JSON: )?yaml: (?:line \d+: )?`)

// oneLine is the message of an error about YAML without its place and line breaks, and not longer than it needs to be.
func oneLine(err error) string {
	const most = 200
	s := strings.Join(strings.Fields(yamlPlace.ReplaceAllString(err.Error(), "")), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
