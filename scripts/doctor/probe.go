package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// answer is what a plugin tells about itself. Error is set if it could not be opened.
type answer struct {
	Error    string            `json:"error,omitempty"`
	API      string            `json:"pjrt_api_version,omitempty"` // major.minor
	Versions map[string]string `json:"versions,omitempty"`         // its own attributes: xla_version, stablehlo_current_version, ...
	Platform string            `json:"platform,omitempty"`         // cpu, cuda
	Release  string            `json:"platform_version,omitempty"`
	Devices  []string          `json:"devices,omitempty"`
}

// probeTime is long: a CUDA client takes its time to reserve memory.
const probeTime = 90 * time.Second

// probeInChild opens a plugin in a process of its own.
func probeInChild(ctx context.Context, path string) answer {
	self, err := os.Executable()
	if err != nil {
		return answer{Error: fmt.Sprintf("cannot start a process that opens it: %v", err)}
	}
	return probeWith(ctx, self, path)
}

// probeWith starts a program that opens a plugin and prints the answer. Except in tests, it is this program itself.
func probeWith(ctx context.Context, program, path string) answer {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--probe", path)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var a answer
	switch {
	case ctx.Err() != nil:
		return answer{Error: fmt.Sprintf("it did not answer within %v", probeTime)}
	case err != nil:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return answer{Error: fmt.Sprintf("the process that opened it ended with %v%s", err, firstLine(": ", stderr.String()))}
		}
		return answer{Error: fmt.Sprintf("cannot start a process that opens it: %v", err)}
	}
	if err := json.Unmarshal(stdout.Bytes(), &a); err != nil {
		return answer{Error: fmt.Sprintf("the process that opened it printed no answer: %v", err)}
	}
	return a
}

// firstLine returns prefix and the first line of text that says something, or nothing.
func firstLine(prefix, text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return prefix + line
		}
	}
	return ""
}
