package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed assets
var assetFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// asset is a file that pages need.
type asset struct {
	content []byte
	hash    string // of the content: a page names it, so that a browser may keep the file
}

type assets struct{ files map[string]asset }

func newAssets() (*assets, error) {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("reading the assets: %w", err)
	}
	a := &assets{files: map[string]asset{}}
	for _, e := range entries {
		b, err := assetFiles.ReadFile(path.Join("assets", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the assets: %w", err)
		}
		sum := sha256.Sum256(b)
		a.files[e.Name()] = asset{content: b, hash: hex.EncodeToString(sum[:6])}
	}
	return a, nil
}

// url is where a page gets the file.
func (a *assets) url(name string) (string, error) {
	f, ok := a.files[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return "/assets/" + name + "?v=" + f.hash, nil
}

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	f, ok := a.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	keep := "no-cache"
	if r.URL.Query().Get("v") == f.hash {
		keep = "public, max-age=31536000, immutable"
	}
	w.Header().Set("Cache-Control", keep)
	w.Header().Set("ETag", `"`+f.hash+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.content))
}

// look is what all pages of the program are made with.
type look struct {
	assets    *assets
	templates map[string]*template.Template
}

// pageLook reads and parses what is built in, which is the same for all servers of a process.
var pageLook = sync.OnceValues(func() (*look, error) {
	a, err := newAssets()
	if err != nil {
		return nil, err
	}
	t, err := parseTemplates(a)
	return &look{a, t}, err
})

// parseTemplates makes one set for each page: the layout, the parts, and the page's own file.
func parseTemplates(a *assets) (map[string]*template.Template, error) {
	base, err := template.New("layout.tmpl").Funcs(funcs(a)).ParseFS(templateFiles, "templates/layout.tmpl", "templates/parts.tmpl")
	if err != nil {
		return nil, fmt.Errorf("parsing the layout of pages: %w", err)
	}
	views := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "findings", "finding", "nodes", "node", "bindings", "binding", "objects", "object", "incidents", "incident", "checks", "check", "rules", "rule", "login", "problem", "fleet",
	} {
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name+".tmpl")
		}
		if err != nil {
			return nil, fmt.Errorf("parsing the page %s: %w", name, err)
		}
		views[name] = t
	}
	return views, nil
}
