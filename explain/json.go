package explain

import (
	"fmt"
	"io"

	"github.com/nodetrail/nodetrail/wording"
)

// WriteJSON writes the explanation as one indented JSON object. All keys are always there, and no list is null.
func (ex *Explanation) WriteJSON(w io.Writer) error { return writeJSON(w, ex) }

// WriteJSON writes who can reach the object as one indented JSON object.
func (r *Reach) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	if err := wording.WriteJSON(w, v); err != nil {
		return fmt.Errorf("writing an explanation: %w", err)
	}
	return nil
}
