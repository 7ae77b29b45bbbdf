package store

import "testing"

func TestNumbered(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1":                  "SELECT 1",
		"VALUES ($1, $2), ($3, $4)": "VALUES (?, ?), (?, ?)",
		"a = $1":                    "a = ?",
		"a = $1 OR b = $1":          "a = ?1 OR b = ?1",
		"a = $2 AND b = $1":         "a = ?2 AND b = ?1",
		"($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)": "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"a = $1 AND b = $20":                        "a = ?1 AND b = ?20",
		"a = $10":                                   "a = ?10",
	} {
		if got := numbered(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
