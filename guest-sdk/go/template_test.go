package guesthouse_test

import (
	"bytes"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is a new folder with the template in it, filled in as `guesthouse new` does.
func project(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "some", "hello-world")
	fill := strings.NewReplacer(
		"{{name}}", "hello-world", "{{kind}}", "HelloWorld", "{{plural}}", "helloworlds", "{{group}}", "example.com",
		"{{snake}}", "hello_world",
	)
	copied(t, "template", folder, fill)
	copied(t, ".", filepath.Join(folder, "sdk"), strings.NewReplacer())
	return folder
}

// copied is all files below a folder but the SDK's own tests, guests and templates.
func copied(t *testing.T, from, to string, fill *strings.Replacer) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if from == "." && (within == "template" || within == "conformance") {
			return fs.SkipDir
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, within), 0o777)
		}
		if from == "." && strings.HasSuffix(within, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, within), []byte(fill.Replace(string(text))), 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, folder string, command ...string) {
	t.Helper()
	it := exec.Command(command[0], command[1:]...)
	it.Dir = folder
	it.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := it.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// fenced is the first block of that language in a Markdown file.
func fenced(t *testing.T, path, language string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n```"+language+"\n")
	block, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatalf("%s has no block of %s", path, language)
	}
	return block
}

// built is the plugin of a project, by the command of its README.
func built(t *testing.T, folder string) []byte {
	t.Helper()
	for line := range strings.Lines(fenced(t, filepath.Join(folder, "README.md"), "sh")) {
		if strings.Contains(line, "go build") {
			run(t, folder, "sh", "-c", line)
			wasm, err := os.ReadFile(filepath.Join(folder, "hello-world.wasm"))
			if err != nil {
				t.Fatal(err)
			}
			return wasm
		}
	}
	t.Fatal("the README has no command to build")
	return nil
}

func TestTheTemplateTestsItselfAndBuildsTheSameInEveryFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for WebAssembly")
	}
	first, second := project(t), project(t)
	run(t, first, "go", "vet")
	run(t, first, "go", "test")
	if !bytes.Equal(built(t, first), built(t, second)) {
		t.Error("two folders, and two files")
	}
}

func TestThePluginOfTheReadmeIsShortAndPassesItsCase(t *testing.T) {
	folder := project(t)
	plugin := fenced(t, "README.md", "go")
	if lines := strings.Count(plugin, "\n") - strings.Count(plugin, "\n\n"); lines > 20 {
		t.Errorf("it has %d lines", lines)
	}
	if formatted, err := format.Source([]byte(plugin)); err != nil || string(formatted) != plugin {
		t.Errorf("gofmt writes it otherwise (%v):\n%s", err, formatted)
	}
	for path, text := range map[string]string{
		"main.go":          plugin,
		"cases/hello.json": fenced(t, "README.md", "json"),
	} {
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run(t, folder, "go", "vet")
	run(t, folder, "go", "test")
}
