package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/internal/userfile"
)

// MaxFileSize bounds a configuration file, in bytes.
const MaxFileSize = 1 << 20

// Checks look at what only other packages understand. Each may be nil.
type Checks struct {
	// DSN says what is wrong with a PostgreSQL DSN, without the DSN.
	DSN func(string) error
}

// Parse reads a configuration. name is how errors call the file; env looks variables up, as os.LookupEnv does. An error is an *FileError.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	return parse(name, data, env, Checks{})
}

func parse(name string, data []byte, env func(string) (string, bool), checks Checks) (*Config, error) {
	d := &decoder{errs: &FileError{File: name}, env: env, lines: map[string]int{}, raw: map[string]string{}, keys: allKeys(reflect.TypeFor[Config](), "")}
	c := Default()
	switch {
	case len(data) > MaxFileSize:
		d.errs.add(0, "", "the file is larger than %s", Size(MaxFileSize))
	case !utf8.Valid(data):
		d.errs.add(badLine(data), "", "the file is not valid UTF-8")
	default:
		if root := d.document(data); root != nil {
			d.value(root, reflect.ValueOf(c).Elem(), "", "")
		}
	}
	// What could not be read has its default by now, so that the checks across fields still hold.
	v := &validator{d: d, c: c, checks: checks}
	v.all()
	if len(d.errs.Problems) > 0 {
		return nil, d.errs.sorted()
	}
	sum := sha256.Sum256(data)
	c.hash = hex.EncodeToString(sum[:16])
	return c, nil
}

// badLine is the first line that is not UTF-8.
func badLine(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if !utf8.Valid(line) {
			break
		}
	}
	return n
}

// Load reads a file. An error is an *FileError, or says that the file cannot be read.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	return LoadChecked(path, env, Checks{})
}

// LoadChecked is Load with further checks.
func LoadChecked(path string, env func(string) (string, bool), checks Checks) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data, env, checks)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, userfile.Unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, userfile.Unreadable(path, err)
	}
	return data, nil
}

// ReadSecret reads a file that holds a secret and nothing else: a line end after it does not count. FileError do not quote it.
func ReadSecret(path string) (Secret, error) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, fmt.Errorf("reading a secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return Secret{}, fmt.Errorf("reading a secret: %w", err)
	case len(data) > most:
		return Secret{}, fmt.Errorf("reading a secret: %s is larger than %s", path, Size(most))
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return Secret{}, fmt.Errorf("reading a secret: %s is empty", path)
	}
	return NewSecret(text), nil
}
