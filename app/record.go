package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/userfile"
)

// RecordOptions say which cluster Record watches, and where it writes.
type RecordOptions struct {
	// Kubeconfig and Context are as kubectl's; with "" they are those of $KUBECONFIG, ~/.kube/config or the pod's own service account.
	Kubeconfig, Context string
	// Output is the file that the journal is appended to; "-" is Stdout.
	Output string
	Stdout io.Writer
	// KeepValues keeps values that may hold secrets, such as environment variables; KeepManagedFields keeps metadata.managedFields.
	KeepValues, KeepManagedFields bool
	// Log is where it logs.
	Log LogTo
}

// Record lists and watches the objects that node authorization depends on, and writes each change with the time at which it was seen, as a line
// of JSON: a journal that Input.State takes. It continues until ctx ends, which is no error. Secrets are never read.
//
// It returns an error if there is no cluster to talk to, and if the journal cannot be written, which then holds whole lines but for the last.
func Record(ctx context.Context, o RecordOptions) (err error) {
	config, err := cluster.ClientConfig(o.Kubeconfig, o.Context)
	if err != nil {
		return err
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: o.Log.W, NoColor: !o.Log.Terminal}).With().Timestamp().Logger()
	w := o.Stdout
	var past *cluster.Past
	if o.Output != "-" {
		// Appending never loses what an earlier run saw.
		out, oerr := os.OpenFile(o.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if oerr != nil {
			return optionError("Output", "cannot write %w", PathError(o.Output, oerr))
		}
		info, serr := out.Stat()
		isFile := serr == nil && info.Mode().IsRegular() // a pipe has no past, and nothing to sync
		defer func() {
			if isFile {
				err = errors.Join(err, out.Sync())
			}
			err = errors.Join(err, out.Close())
		}()
		if isFile {
			if past, err = pastOf(ctx, out, log); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
		w = out
	}
	err = cluster.Record(ctx, cluster.RecordConfig{Config: config, KeepValues: o.KeepValues, KeepManagedFields: o.KeepManagedFields, Past: past}, w, log)
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && err != nil && strings.Contains(err.Error(), context.Canceled.Error()) {
		return nil // asked to stop: that is how a recording ends
	}
	return err
}

// pastOf reads the journal to which a file is appended, and cuts off what a crash has left at its end.
func pastOf(ctx context.Context, out *os.File, log zerolog.Logger) (*cluster.Past, error) {
	path := out.Name()
	if isTaken(out) {
		return nil, optionError("Output", "cannot continue %s: another process writes it", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, optionError("Output", "cannot continue %w", PathError(path, err))
	}
	defer func() { _ = f.Close() }()
	past, whole, err := cluster.ReadPast(path, untilDone{ctx, f})
	if err != nil {
		return nil, optionError("Output", "cannot continue %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > whole {
		log.Warn().Str("file", path).Int64("bytes", info.Size()-whole).Msg("the journal ends in the middle of an entry, which is cut off")
		err = out.Truncate(whole)
	}
	if err != nil {
		return nil, fmt.Errorf("cutting off the end of the journal: %w", PathError(path, err))
	}
	return past, nil
}

// untilDone reads until a context is done.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// PathError is an error of package os with the path first and without the system call.
func PathError(path string, err error) error {
	return fmt.Errorf("%s: %w", path, userfile.Cause(err))
}
