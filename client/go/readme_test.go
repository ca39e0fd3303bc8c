// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheProgramOfTheReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\npackage main")
	program, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte("package main"+program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
