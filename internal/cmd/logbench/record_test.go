package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestProfileNamesNoPath is about the profile that the compiler gets, and about one that is written now.
func TestProfileNamesNoPath(t *testing.T) {
	committed := unpackedFile(t, filepath.Join("..", "..", "..", "cmd", "nodetrail", "default.pgo"))
	if !bytes.Contains(committed, []byte("nodetrail/audit.(*reader).onePass")) {
		t.Error("the profile does not say what decoding takes")
	}
	if path := regexp.MustCompile(`/(home|root|tmp|usr|var|work|Users)/[[:print:]]*`).Find(committed); path != nil {
		t.Errorf("the profile has the path %s: it was not made by make profile", path)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("before " + program + " behind")) // Close tells
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "default.pgo")
	if err := withoutProgram(name, &packed); err != nil {
		t.Fatal(err)
	}
	if got, want := unpackedFile(t, name), "before "+string(bytes.Repeat([]byte("-"), len(program)))+" behind"; string(got) != want {
		t.Errorf("the profile is %q, want %q", got, want)
	}
}

func unpackedFile(t *testing.T, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := unpacked(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
