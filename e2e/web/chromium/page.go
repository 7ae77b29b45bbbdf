package chromium

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Page is a tab in a browser context of its own: it shares neither cookies nor storage nor cache with others.
type Page struct {
	b       *Browser
	session string
	target  string
	context string

	mu       sync.Mutex
	loaded   chan struct{} // closed by the load event
	problems []string
	requests []string
	status   map[string]int // of documents, by address
}

// NewPage opens an empty page.
func (b *Browser) NewPage(ctx context.Context) (*Page, error) {
	p := &Page{b: b, loaded: make(chan struct{}), status: map[string]int{}}
	var own struct{ BrowserContextID string }
	if err := b.call(ctx, "", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &own); err != nil {
		return nil, err
	}
	var target struct{ TargetID string }
	if err := b.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.BrowserContextID}, &target); err != nil {
		return nil, err
	}
	var session struct{ SessionID string }
	if err := b.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session); err != nil {
		return nil, err
	}
	p.session, p.target, p.context = session.SessionID, target.TargetID, own.BrowserContextID
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "Audits"} {
		if err := p.call(ctx, domain+".enable", nil, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Close closes the page, and forgets all that it kept.
func (p *Page) Close(ctx context.Context) error {
	p.b.mu.Lock()
	delete(p.b.pages, p.session)
	p.b.mu.Unlock()
	return p.b.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": p.context}, nil)
}

func (p *Page) call(ctx context.Context, method string, params, out any) error {
	return p.b.call(ctx, p.session, method, params, out)
}

func (p *Page) problem(say string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, say)
}

// event notes what went wrong, what was asked for, and that the page was loaded.
func (p *Page) event(method string, raw json.RawMessage) {
	var e struct {
		Args             []struct{ Description, Value any }
		Type             string
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry    struct{ Level, Text, URL string }
		Request  struct{ URL string }
		Response struct {
			URL    string
			Status int
		}
		Issue json.RawMessage
	}
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	switch method {
	case "Page.loadEventFired":
		p.mu.Lock()
		defer p.mu.Unlock()
		select {
		case <-p.loaded:
		default:
			close(p.loaded)
		}
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			p.problem(fmt.Sprintf("the console says: %s %v", e.Type, e.Args))
		}
	case "Runtime.exceptionThrown":
		p.problem("an exception: " + e.ExceptionDetails.Text + " " + e.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		// That a page is not there is what a test of it wants.
		if (e.Entry.Level == "error" || e.Entry.Level == "warning") && !strings.Contains(e.Entry.Text, "the server responded with a status of") {
			p.problem("the log says: " + e.Entry.Text + " " + e.Entry.URL)
		}
	case "Audits.issueAdded":
		if s := string(e.Issue); strings.Contains(s, "ContentSecurityPolicy") {
			p.problem("the Content-Security-Policy was broken: " + s)
		}
	case "Network.requestWillBeSent":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, e.Request.URL)
	case "Network.responseReceived":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.status[e.Response.URL] = e.Response.Status
	}
}

// Problems are the errors of scripts and of the console, the warnings of the browser, and what broke the Content-Security-Policy, since
// the page was opened.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Requests are the addresses of all that was asked for since the page was opened.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Status is the HTTP status that came from an address, 0 for none.
func (p *Page) Status(url string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status[url]
}

// Open goes to an address and waits until all of the page is loaded.
func (p *Page) Open(ctx context.Context, url string) error {
	loaded := make(chan struct{})
	p.mu.Lock()
	p.loaded = loaded
	p.mu.Unlock()
	var answer struct{ ErrorText string }
	if err := p.call(ctx, "Page.navigate", map[string]any{"url": url}, &answer); err != nil {
		return err
	}
	if answer.ErrorText != "" {
		return fmt.Errorf("opening %s: %s", url, answer.ErrorText)
	}
	select {
	case <-loaded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("loading %s: %w", url, ctx.Err())
	}
}

// Eval runs an expression in the page, waits for it if it is a promise, and reads its value into out, which may be nil.
func (p *Page) Eval(ctx context.Context, expression string, out any) error {
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.call(ctx, "Runtime.evaluate", map[string]any{
		"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &answer)
	switch {
	case err != nil:
		return err
	case answer.ExceptionDetails != nil:
		return fmt.Errorf("in the page: %s %s", answer.ExceptionDetails.Text, answer.ExceptionDetails.Exception.Description)
	case out == nil || len(answer.Result.Value) == 0:
		return nil
	}
	if err := json.Unmarshal(answer.Result.Value, out); err != nil {
		return fmt.Errorf("the value %s: %w", answer.Result.Value, err)
	}
	return nil
}

// Press presses and releases a key: a letter, a sign, or Enter, Tab or Escape.
func (p *Page) Press(ctx context.Context, key string) error {
	code, text := 0, key
	switch key {
	case "Enter":
		code, text = 13, "\r"
	case "Tab":
		code, text = 9, ""
	case "Escape":
		code, text = 27, ""
	}
	down := map[string]any{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code}
	if text == "" {
		down["type"] = "rawKeyDown"
		delete(down, "text")
	}
	if err := p.call(ctx, "Input.dispatchKeyEvent", down, nil); err != nil {
		return err
	}
	return p.call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}, nil)
}

// Type writes text where the focus is, key by key.
func (p *Page) Type(ctx context.Context, text string) error {
	for _, r := range text {
		if err := p.Press(ctx, string(r)); err != nil {
			return err
		}
	}
	return nil
}

// Size makes the page as wide and as high as so many CSS pixels.
func (p *Page) Size(ctx context.Context, width, height int) error {
	return p.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Media sets the medium, such as print, and the colour scheme, dark or light; "" leaves what the system has. Animations are off.
func (p *Page) Media(ctx context.Context, medium, scheme string) error {
	return p.call(ctx, "Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

// Script runs code in each page that is opened from now on, before the page's own; it turns the page's scripts off where code is "".
func (p *Page) Script(ctx context.Context, on bool) error {
	return p.call(ctx, "Emulation.setScriptExecutionDisabled", map[string]any{"value": !on}, nil)
}

// Inject runs code in the page without regard to its Content-Security-Policy.
func (p *Page) Inject(ctx context.Context, code string) error {
	return p.Eval(ctx, code+"\n;undefined", nil)
}

// Picture is a PNG of the page from its top, as high as it is, at most so many pixels.
func (p *Page) Picture(ctx context.Context, most int) ([]byte, error) {
	var size struct {
		CSSContentSize struct{ Width, Height float64 } `json:"cssContentSize"`
	}
	if err := p.call(ctx, "Page.getLayoutMetrics", nil, &size); err != nil {
		return nil, err
	}
	var picture struct{ Data []byte }
	err := p.call(ctx, "Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": min(float64(most), size.CSSContentSize.Height), "scale": 1},
	}, &picture)
	return picture.Data, err
}
