// Package chromium drives a headless Chromium by its DevTools protocol, over a pipe: no port is opened and no library is needed.
//
// What goes in: a page's address, and what to press. What comes out: what the page's script says ([Page.Eval]), pictures, and all that
// went wrong while the page was there ([Page.Problems]). The package imports only the standard library; it knows nothing of nodetrail.
package chromium

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/nodetrail/nodetrail/internal/tail"
)

// Programs are the names that Chromium goes by, in the order in which they are tried.
func Programs() []string { return []string{"chromium", "chromium-browser", "google-chrome"} }

// Browser is a running Chromium with a profile of its own. Its methods may be called concurrently.
type Browser struct {
	cmd     *exec.Cmd
	profile string
	stderr  *tail.Buffer
	done    chan struct{} // closed when nothing more comes

	mu    sync.Mutex
	in    *os.File
	last  int64
	calls map[int64]chan<- answer
	pages map[string]*Page // by session
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// message is what comes over the pipe: an answer where it has an ID, else an event.
type message struct {
	ID        int64  `json:"id"`
	SessionID string `json:"sessionId"`
	Method    string `json:"method"`
	Params    json.RawMessage
	answer
}

// Start starts a Chromium. It ends with ctx or Close.
func Start(ctx context.Context) (*Browser, error) {
	var program string
	for _, name := range Programs() {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, errors.New("there is no Chromium: e2e/install.sh installs it")
	}
	profile, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		return nil, fmt.Errorf("making a profile for Chromium: %w", err)
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe to Chromium: %w", err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe from Chromium: %w", err)
	}
	// Chromium's sandbox refuses to run as root, which tests in containers are; the only pages that are opened are ours. What asks
	// Google's servers for something is turned off.
	cmd := exec.CommandContext(ctx, program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
		"--disable-default-apps", "--disable-extensions", "--disable-sync", "--disable-lcd-text", "--force-color-profile=srgb", "--hide-scrollbars",
		"--font-render-hinting=none", "--lang=en-US", "--proxy-server=direct://", "--disable-features=Translate,OptimizationHints,MediaRouter",
		"--force-device-scale-factor=1", "about:blank")
	b := &Browser{cmd: cmd, profile: profile, stderr: &tail.Buffer{}, done: make(chan struct{}), in: in, calls: map[int64]chan<- answer{}, pages: map[string]*Page{}}
	cmd.Stderr = b.stderr
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4
	cmd.Env = append(os.Environ(), "TZ=UTC")
	err = cmd.Start()
	_, _ = toBrowser.Close(), fromBrowser.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, fmt.Errorf("starting Chromium: %w", err)
	}
	go b.read(out)
	return b, nil
}

// Close ends the browser and takes its profile away.
func (b *Browser) Close() error {
	_ = b.call(context.Background(), "", "Browser.close", nil, nil) // it may be gone
	err := b.cmd.Wait()
	_ = b.in.Close()
	if rm := os.RemoveAll(b.profile); rm != nil {
		return fmt.Errorf("removing Chromium's profile: %w", rm)
	}
	if err != nil {
		return fmt.Errorf("chromium ended: %w\n%s", err, b.stderr)
	}
	return nil
}

func (b *Browser) read(out *os.File) {
	defer close(b.done)
	defer func() { _ = out.Close() }()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				b.mu.Lock()
				for _, p := range b.pages {
					p.problem("the pipe from Chromium broke: " + err.Error())
				}
				b.mu.Unlock()
			}
			return
		}
		var m message
		if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
			continue // what is not understood is not for us
		}
		b.mu.Lock()
		to, page := b.calls[m.ID], b.pages[m.SessionID]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && to != nil:
			to <- m.answer
		case page != nil:
			page.event(m.Method, m.Params)
		}
	}
}

// call sends a command and waits for its answer; out may be nil.
func (b *Browser) call(ctx context.Context, session, method string, params, out any) error {
	got := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.calls[id] = got
	raw, err := json.Marshal(struct {
		ID        int64  `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{id, session, method, params})
	if err == nil {
		_, err = b.in.Write(append(raw, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sending %s to Chromium: %w", method, err)
	}
	select {
	case a := <-got:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if out == nil {
			return nil
		}
		if err := json.Unmarshal(a.Result, out); err != nil {
			return fmt.Errorf("the answer of %s: %w", method, err)
		}
		return nil
	case <-b.done:
		return fmt.Errorf("%s: Chromium is gone: %s", method, b.stderr)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
