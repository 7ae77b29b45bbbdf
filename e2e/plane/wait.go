package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// PatienceEnv may hold another Patience.
const PatienceEnv = "NODETRAIL_E2E_PATIENCE"

// Patience is how long a very slow machine may take beyond what is waited for.
func Patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(PatienceEnv)); err == nil {
		return d
	}
	return 5 * time.Minute
}

// fatal is an error that no waiting will mend.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Fatal marks an error that no waiting will mend.
func Fatal(err error) error { return fatal{err} }

// Eventually asks until there is no error, or Patience is at its end.
func Eventually(ctx context.Context, what string, ok func() error) error {
	for end := time.Now().Add(Patience()); ; {
		err := ok()
		if err == nil {
			return nil
		}
		var f fatal
		if errors.As(err, &f) || time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return port
}

// OK is an error unless a GET of the address is answered 200.
func OK(url string) error {
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
