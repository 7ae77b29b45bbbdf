// Package chromium opens pages in a headless Chromium, which chromedp drives over a pipe, so that no port is opened.
//
// What goes in: a page's address, and what to press. What comes out: what the page's script says ([Page.Eval]), pictures, and all that
// went wrong while the page was open ([Page.Problems]). The package knows nothing of nodetrail.
package chromium

import (
	"context"
	"fmt"

	"github.com/chromedp/chromedp"
)

// Browser is a running Chromium with a profile of its own.
type Browser struct {
	ctx  context.Context // of chromedp: pages are its children
	stop context.CancelFunc
}

// Start starts a Chromium, which e2e/install.sh installs. It ends with ctx or Close.
func Start(ctx context.Context) (*Browser, error) {
	// Chromium's sandbox refuses to run as root, which tests in containers are; the only pages that are opened are ours.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Env("TZ=UTC"), chromedp.ProxyServer("direct://"))
	// What asks Google's servers for something is turned off, and what differs from machine to machine is fixed.
	for name, value := range map[string]any{
		"disable-component-update": true, "disable-features": "Translate,OptimizationHints,MediaRouter", "disable-lcd-text": true,
		"hide-scrollbars": true, "font-render-hinting": "none", "lang": "en-US", "force-device-scale-factor": "1",
	} {
		options = append(options, chromedp.Flag(name, value))
	}
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	ctx, _ = chromedp.NewContext(ctx) //nolint:govet // stop ends the parent, and Close this one
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("starting Chromium, which e2e/install.sh installs: %w", err)
	}
	return &Browser{ctx: ctx, stop: stop}, nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() error {
	defer b.stop()
	if err := chromedp.Cancel(b.ctx); err != nil {
		return fmt.Errorf("ending Chromium: %w", err)
	}
	return nil
}
