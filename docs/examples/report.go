// The nightly report in Go: go run report.go holdfast.go FILE [STEPS].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

func report(file string, steps int) (err error) {
	lock, err := Hold(context.Background(), "nightly/report")
	if err != nil {
		return err
	}
	defer func() {
		if lost := lock.Release(); err == nil {
			err = lost
		}
	}()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	var last uint64
	for fence, word := uint64(0), ""; ; last = fence {
		if _, err := fmt.Fscan(f, &fence, &word); err != nil {
			break
		}
	}
	if last > lock.Fence {
		return errors.New("refused: a later holder has written")
	}
	fmt.Fprintln(f, lock.Fence, "begin")
	for step := 0; step < steps; step++ {
		select {
		case <-lock.Context.Done():
			return errors.New("stopped: the lock is being lost")
		case <-time.After(10 * time.Millisecond): // the work
		}
	}
	_, err = fmt.Fprintln(f, lock.Fence, "end")
	return err
}

func main() {
	steps := 10
	var wrong error
	if len(os.Args) == 3 {
		steps, wrong = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) < 2 || len(os.Args) > 3 || wrong != nil || steps < 0 {
		fmt.Fprintln(os.Stderr, "usage: report FILE [STEPS]")
		os.Exit(64)
	}
	if err := report(os.Args[1], steps); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}
