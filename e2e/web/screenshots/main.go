// Command screenshots makes pictures of pages with a headless Chromium.
//
//	screenshots -nodetrail PROGRAM -out DIR                          the pages of the demo that the documentation shows
//	screenshots -base http://127.0.0.1:8080 -out DIR NAME=PATH ...   pages of a nodetrail that runs; NAME may end in :dark, :print, :narrow and :tall
//
// What goes in: a nodetrail. What comes out: DIR/NAME.png for each page, of at most 256 colours. The command imports e2e/web/chromium and
// the standard library.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nodetrail/nodetrail/e2e/web/chromium"
)

// options are what the command line says.
type options struct {
	nodetrail, base, out string
	width, height        int
	pages                []string
}

func main() {
	var o options
	flag.StringVar(&o.nodetrail, "nodetrail", "", "the program whose demo is looked at")
	flag.StringVar(&o.base, "base", "", "the address of a nodetrail that runs, in place of the demo")
	flag.StringVar(&o.out, "out", ".", "where the pictures go")
	flag.IntVar(&o.width, "width", 1280, "of a picture, in pixels")
	flag.IntVar(&o.height, "height", 1100, "the height that is never passed")
	flag.Parse()
	o.pages = flag.Args()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func (o *options) run() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	if o.base == "" {
		end, started := o.demo(ctx)
		if started != nil {
			return started
		}
		defer func() { err = errors.Join(err, end()) }()
		if o.pages, err = documented(ctx, o.base); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("making the folder of pictures: %w", err)
	}
	b, err := chromium.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, what := range o.pages {
		name, path, ok := strings.Cut(what, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=PATH", what)
		}
		width, height := int64(o.width), o.height
		if strings.Contains(name, ":narrow") {
			width = 320
		}
		if strings.Contains(name, ":tall") {
			height += height / 2
		}
		if err := shoot(ctx, b, o.out, name, o.base+path, width, height); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// demo starts the demo and waits until it has come to its end. end ends it.
func (o *options) demo(ctx context.Context) (end func() error, err error) {
	cmd := exec.CommandContext(ctx, o.nodetrail, "demo", "--end=false", "--speed", "10")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the demo: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the demo: %w", err)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		line := in.Text()
		if i := strings.Index(line, "http://"); i >= 0 && o.base == "" {
			o.base = strings.TrimSuffix(strings.Fields(line[i:])[0], "/")
			if at, err := url.Parse(o.base); err == nil {
				o.base = "http://" + at.Host
			}
		}
		if strings.HasPrefix(line, "All is judged") {
			return func() error {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					return fmt.Errorf("ending the demo: %w", err)
				}
				if err := cmd.Wait(); err != nil {
					return fmt.Errorf("ending the demo: %w", err)
				}
				return nil
			}, nil
		}
	}
	return nil, errors.Join(errors.New("the demo ended before all was judged"), cmd.Wait())
}

// finding is what is needed of one.
type finding struct{ ID, Node, Namespace, Name string }

// ask reads an answer of the API.
func ask(ctx context.Context, address string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", address, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		return fmt.Errorf("the answer of %s: %w", address, err)
	}
	return nil
}

// show chooses the secret that is shown: one that was read by a node to which it did not lead, and that led to another node then.
func show(ctx context.Context, base string) (*finding, error) {
	var all struct{ Findings []finding }
	if err := ask(ctx, base+"/api/v1/findings?rule=out-of-scope-secret-read&severity=critical&allowed=true&limit=200", &all); err != nil {
		return nil, err
	}
	for i := range all.Findings {
		f := &all.Findings[i]
		var page struct {
			Explanation *struct{ Others struct{ Nodes []any } }
		}
		if err := ask(ctx, base+"/api/v1/findings/"+f.ID, &page); err != nil {
			return nil, err
		}
		if f.Name != "" && page.Explanation != nil && len(page.Explanation.Others.Nodes) > 0 {
			return f, nil
		}
	}
	return nil, errors.New("no finding is of a secret that led to another node")
}

// documented are the pages that the documentation shows.
func documented(ctx context.Context, base string) ([]string, error) {
	f, err := show(ctx, base)
	if err != nil {
		return nil, err
	}
	return []string{
		"overview=/", "overview-dark:dark=/", "overview-ready=/?window=7s", "overview-narrow:narrow=/", "findings=/findings", "findings-by-client=/findings?group=userAgent",
		"finding:tall=/findings/" + f.ID, "finding-dark:tall:dark=/findings/" + f.ID, "nodes=/nodes", "node=/nodes/" + url.PathEscape(f.Node), "bindings=/bindings",
		"binding=/bindings/clusterrolebinding/-/legacy:system:node", "objects=/objects", "object=/objects/secrets/" + url.PathEscape(f.Namespace) + "/" + url.PathEscape(f.Name),
		"rules=/rules", "rule=/rules/rbac-excess-access",
	}, nil
}

func shoot(ctx context.Context, b *chromium.Browser, out, name, url string, width int64, most int) error {
	name, marks, _ := strings.Cut(name, ":")
	scheme, medium := "light", ""
	if strings.Contains(marks, "dark") {
		scheme = "dark"
	}
	if strings.Contains(marks, "print") {
		medium = "print"
	}
	p, err := b.NewPage()
	if err != nil {
		return err
	}
	if err := p.Size(ctx, width, 800); err != nil {
		return err
	}
	if err := p.Media(ctx, medium, scheme); err != nil {
		return err
	}
	// A page that is not what was asked for is no picture.
	status, err := p.Open(ctx, url)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("status %d", status)
	}
	raw, err := p.Picture(ctx, most)
	if err != nil {
		return err
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("reading the picture: %w", err)
	}
	var small bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&small, reduce(img)); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	if err := os.WriteFile(filepath.Join(out, name+".png"), small.Bytes(), 0o644); err != nil { //nolint:gosec // for all to see
		return fmt.Errorf("writing the picture: %w", err)
	}
	fmt.Printf("%s.png %d kB\n", name, small.Len()/1000)
	return p.Close()
}

// reduce leaves the 256 most frequent colours of a picture and takes the nearest of them for the others.
func reduce(img image.Image) image.Image {
	size := img.Bounds()
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := img.At(x, y).RGBA()
		const step = 0xf8 // what is hardly seen is not kept
		return color.RGBA{uint8(r>>8) & step, uint8(g>>8) & step, uint8(b>>8) & step, 255}
	}
	// The colour of a flat part is kept exactly: the first of those that are put together.
	exact := map[color.RGBA]map[color.RGBA]int{}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			k := at(x, y)
			count[k]++
			if exact[k] == nil {
				exact[k] = map[color.RGBA]int{}
			}
			r, g, b, _ := img.At(x, y).RGBA()
			exact[k][color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		if n := count[b] - count[a]; n != 0 {
			return n
		}
		return (int(a.R)<<16 | int(a.G)<<8 | int(a.B)) - (int(b.R)<<16 | int(b.G)<<8 | int(b.B))
	})
	all = all[:min(256, len(all))]
	var palette color.Palette
	index := map[color.RGBA]uint8{}
	for i, c := range all {
		index[c] = uint8(i)
		best, most := c, 0
		for e, n := range exact[c] {
			if n > most || n == most && int(e.R)+int(e.G)+int(e.B) < int(best.R)+int(best.G)+int(best.B) {
				best, most = e, n
			}
		}
		palette = append(palette, best)
	}
	out := image.NewPaletted(image.Rect(0, 0, size.Dx(), size.Dy()), palette)
	for y := range size.Dy() {
		for x := range size.Dx() {
			c := at(size.Min.X+x, size.Min.Y+y)
			i, ok := index[c]
			if !ok {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	return out
}
