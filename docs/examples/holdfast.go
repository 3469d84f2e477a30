// A lock of Holdfast for Go, over `holdfast hold --json`. Copy it; report.go shows its use.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// Held is a lock that is held. Its methods are for one goroutine; anybody may use Fence and Context.
type Held struct {
	Fence   uint64          // for whatever can compare it
	Context context.Context // done: the work has to stop, because the lock is being lost, or nobody watches it any more

	cmd    *exec.Cmd
	input  io.Closer
	said   bytes.Buffer
	reason string
	over   chan struct{} // its output has ended
	failed error         // of the release
}

// An error in words of its own for what `holdfast hold` ended with.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// Hold waits for the lock name; options are those of `holdfast hold`, such as "--wait", "10s". The wait ends when ctx is done, and
// errors.Is(err, ctx.Err()) then. Any other error has what `holdfast hold` said, and is an *exec.ExitError within: 75 when another has the lock.
func Hold(ctx context.Context, name string, options ...string) (*Held, error) {
	h := &Held{over: make(chan struct{})}
	h.cmd = exec.Command("holdfast", append(append([]string{"hold", "--json"}, options...), name)...)
	h.cmd.Stderr = &h.said
	output, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.input, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err = h.cmd.Start(); err != nil {
		return nil, err
	}
	var stop context.CancelFunc
	h.Context, stop = context.WithCancel(ctx)
	granted := make(chan struct{})
	go h.listen(output, granted, stop)
	select {
	case <-granted:
		return h, nil
	case <-ctx.Done():
		h.Release() // which ends the wait, or gives back what was granted just now
		return nil, fmt.Errorf("waiting for %s: %w", name, ctx.Err())
	case <-h.over:
		select {
		case <-granted: // and lost before we looked: Context tells
			return h, nil
		default:
		}
	}
	if err = h.Release(); err == nil {
		err = fmt.Errorf("waiting for %s: holdfast hold has ended", name)
	}
	return nil, err
}

func (h *Held) listen(output io.Reader, granted chan<- struct{}, stop context.CancelFunc) {
	defer close(h.over)
	defer stop() // the end of its output is a loss, whatever it came from
	for lines, first := bufio.NewScanner(output), true; lines.Scan(); {
		var event struct{ Event, Fence, Reason string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		switch event.Event {
		case "granted":
			if first { // with --also a line for each
				h.Fence, _ = strconv.ParseUint(event.Fence, 10, 64)
				close(granted)
			}
			first = false
		case "losing", "lost":
			h.reason = event.Reason
			stop()
		}
	}
}

// Release gives the lock back. An error says that it had been lost before. Once it is released, it does nothing, and returns the same.
func (h *Held) Release() error {
	h.input.Close() // which releases it
	<-h.over
	if h.cmd.ProcessState != nil {
		return h.failed
	}
	if err := h.cmd.Wait(); err != nil {
		text := strings.ReplaceAll(strings.TrimSpace(h.said.String()), "\n", "; ")
		if text == "" {
			text = h.reason
		}
		if text == "" {
			text = "holdfast hold has ended: " + err.Error()
		}
		h.failed = &failure{text, err}
	}
	return h.failed
}
