// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheProgramsOfTheReadmeCompile(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```go\npackage main")
	program, rest, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no program")
	}
	vet(t, "package main"+program)
	_, rest, _ = strings.Cut(rest, "```go\nsubscriber, err := client.SubscribeBatch")
	batch, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md has no handler of several messages")
	}
	vet(t, `package main

import (
	"context"

	duetime "github.com/duetime/duetime/client/go"
)

func insert(context.Context, []*duetime.Delivery) error { return nil }

func main() {
	ctx := context.Background()
	client, err := duetime.New(duetime.Options{})
	if err != nil {
		panic(err)
	}
	subscriber, err := client.SubscribeBatch`+batch+`
	_, _ = subscriber, err
}
`)
}

// vet compiles and checks a program.
func vet(t *testing.T, program string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
