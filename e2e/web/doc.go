// Package web tests the pages of nodetrail in a real browser: Debian's Chromium, headless, driven by chromedp.
//
// The pages are those of `nodetrail run` over the bundled capture, and of `nodetrail report --serve` over a store with more than 10,000
// findings whose names are hostile. e2e/install.sh installs the browser and axe-core; `make web-test` runs the tests.
package web
