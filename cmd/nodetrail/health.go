package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newHealth(_ streams) *cobra.Command {
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "health URL|FILE",
		Short: "Say by the exit status whether a URL answers 200, or a file is there: for health checks of containers",
		Long: `health asks a URL, such as that of /readyz, and exits with 0 if it is answered with 200, else with 1. Given a path instead it looks whether
a file is there that is not empty. Images without a shell have nothing else to check themselves with.`,
		Example: `  nodetrail health http://127.0.0.1:9876/readyz
  nodetrail health /var/lib/nodetrail/journal.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(needArgs(1, "URL or FILE")(cmd, args), atMostOne("URL or FILE")(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return health(cmd.Context(), args[0], timeout) },
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the answer may take")
	return cmd
}

func health(ctx context.Context, target string, timeout time.Duration) error {
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		info, err := os.Stat(target)
		switch {
		case err != nil:
			return fmt.Errorf("cannot look at %w", pathless(target, err))
		case !info.Mode().IsRegular() || info.Size() == 0:
			return fmt.Errorf("%s is empty, or no file", target)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return fmt.Errorf("%q is not a URL: %w", target, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking for its health: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // for the message alone
		return fmt.Errorf("%s answered %s: %s", target, res.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
