package chromium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Page is a tab in a browser context of its own: it shares neither cookies nor storage nor cache with others. Problems and Requests may be called
// concurrently, the other methods may not.
type Page struct {
	ctx context.Context // of chromedp

	mu       sync.Mutex
	problems []string
	requests []string
}

// NewPage opens an empty page.
func (b *Browser) NewPage() (*Page, error) {
	p := &Page{}
	p.ctx, _ = chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.event)) //nolint:govet // Close ends it
	err := chromedp.Do(p.ctx, command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(audits.Enable, cdp.Empty{}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a page: %w", err), chromedp.Cancel(p.ctx))
	}
	return p, nil
}

// Close closes the page, and forgets all that it kept.
func (p *Page) Close() error {
	if err := chromedp.Cancel(p.ctx); err != nil {
		return fmt.Errorf("closing a page: %w", err)
	}
	return nil
}

// command is an action that sends one command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// run runs an action in the page until it is done or ctx is.
func run[T any](ctx context.Context, p *Page, a chromedp.Action[T]) (T, error) {
	both, stop := context.WithCancel(p.ctx)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	v, err := chromedp.Run(both, a)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return v, err
}

func (p *Page) do(ctx context.Context, steps ...chromedp.Action[chromedp.Void]) error {
	_, err := run(ctx, p, chromedp.Steps(steps...))
	return err
}

// event notes what went wrong and what was asked for.
func (p *Page) event(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	problem := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		switch e.Type {
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert:
			problem("the console says: %s %s", e.Type, said(e.Args))
		}
	case *runtime.EventExceptionThrown:
		problem("an exception: %s %s", e.ExceptionDetails.Text, said([]*runtime.RemoteObject{e.ExceptionDetails.Exception}))
	case *log.EventEntryAdded:
		// That a page is not there is what a test of it wants.
		if (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) && !strings.Contains(e.Entry.Text, "the server responded with a status of") {
			problem("the log says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			details, err := json.Marshal(e.Issue.Details)
			problem("the Content-Security-Policy was broken: %s %v", details, err)
		}
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

// said is what objects of a page look like.
func said(list []*runtime.RemoteObject) string {
	var all []string
	for _, o := range list {
		if o != nil {
			all = append(all, o.Description+string(o.Value))
		}
	}
	return strings.Join(all, " ")
}

// Problems are the errors of scripts and of the console, the warnings of the browser, and what broke the Content-Security-Policy, since
// the page was opened.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Requests are the addresses of all that was asked for since the page was opened.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Open goes to an address, waits until all of the page is loaded, and returns the HTTP status.
func (p *Page) Open(ctx context.Context, url string) (status int64, err error) {
	r, err := run(ctx, p, chromedp.NavigateResponse(url))
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", url, err)
	}
	return r.Status, nil
}

// Eval runs an expression in the page, without regard to its Content-Security-Policy, waits for it if it is a promise, and reads its value into
// out, which may be nil.
func (p *Page) Eval(ctx context.Context, expression string, out any) error {
	value, err := run(ctx, p, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, func(e *runtime.EvaluateParams) { e.UserGesture = new(true) }))
	if err != nil {
		return fmt.Errorf("in the page: %w", err)
	}
	if out == nil || len(value) == 0 {
		return nil
	}
	if err := json.Unmarshal(value, out); err != nil {
		return fmt.Errorf("the value %s: %w", value, err)
	}
	return nil
}

// Press presses and releases a key: a letter, a sign, or Enter, Tab or Escape.
func (p *Page) Press(ctx context.Context, key string) error {
	switch key {
	case "Enter":
		key = kb.Enter
	case "Tab":
		key = kb.Tab
	case "Escape":
		key = kb.Escape
	}
	return p.Type(ctx, key)
}

// Type writes text where the focus is, key by key.
func (p *Page) Type(ctx context.Context, text string) error {
	var steps []chromedp.Action[chromedp.Void]
	for _, r := range text {
		// The text belongs to the pressing of the key: where the page takes that for itself, nothing is written. In an event of its own it would be.
		events := kb.Encode(r)
		for i, e := range events {
			if e.Type == kb.KeyChar {
				continue
			}
			if i+1 < len(events) && events[i+1].Type == kb.KeyChar {
				e.Type, e.Text, e.UnmodifiedText = kb.KeyDown, events[i+1].Text, events[i+1].UnmodifiedText
			}
			steps = append(steps, command(input.DispatchKeyEvent, *e))
		}
	}
	return p.do(ctx, steps...)
}

// Size makes the page as wide and as high as so many CSS pixels.
func (p *Page) Size(ctx context.Context, width, height int64) error {
	return p.do(ctx, chromedp.EmulateViewport(width, height))
}

// Media sets the medium, such as print, and the colour scheme, dark or light; "" leaves what the system has. Animations are off.
func (p *Page) Media(ctx context.Context, medium, scheme string) error {
	return p.do(ctx, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// Script turns the page's scripts on or off, for pages that are opened from now on.
func (p *Page) Script(ctx context.Context, on bool) error {
	return p.do(ctx, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}))
}

// Picture is a PNG of the page from its top, as high as it is, at most so many pixels.
func (p *Page) Picture(ctx context.Context, most int) ([]byte, error) {
	picture, err := run(ctx, p, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		size, err := cdp.Call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return nil, err
		}
		shot, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: new(true),
			Clip: &page.Viewport{Width: size.CSSContentSize.Width, Height: min(float64(most), size.CSSContentSize.Height), Scale: 1},
		})
		return shot.Data, err
	})
	if err != nil {
		return nil, fmt.Errorf("making a picture: %w", err)
	}
	return picture, nil
}

// Sheets is how many sheets of A4 the page takes on paper, with margins of one centimetre.
func (p *Page) Sheets(ctx context.Context) (int, error) {
	paper, err := run(ctx, p, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		out, err := cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{PaperWidth: 210 / 25.4, PaperHeight: 297 / 25.4})
		return out.Data, err
	})
	if err != nil {
		return 0, fmt.Errorf("printing: %w", err)
	}
	// The PDF that Chromium writes has an object of the type Page for each, which is not compressed.
	return len(sheet.FindAll(paper, -1)), nil
}

var sheet = regexp.MustCompile(`/Type\s*/Page[^s]`)
