package cel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

// TestHeddleCEL runs each case of upstream's table, in each combination of features and environments, through `heddle cel`.
func TestHeddleCEL(t *testing.T) {
	for name, scenario := range testcases {
		t.Run(name, func(t *testing.T) {
			consumable, lists := []bool{true, false}, []bool{true, false}
			if scenario.features != nil {
				consumable, lists = []bool{scenario.features.EnableConsumableCapacity}, []bool{scenario.features.EnableListTypeAttributes}
			}
			environments := []environment.Type{environment.NewExpressions, environment.StoredExpressions}
			if scenario.envType != nil {
				environments = []environment.Type{*scenario.envType}
			}
			device := resourceapi.Device{
				Name: "device", AllowMultipleAllocations: scenario.allowMultipleAllocations,
				Attributes: scenario.attributes, Capacity: scenario.capacity,
			}
			file := filepath.Join(t.TempDir(), "device.json")
			text, err := json.Marshal(device)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, capacity := range consumable {
				for _, list := range lists {
					for _, env := range environments {
						run := func(t *testing.T) {
							arguments := []string{"cel", "--expression", scenario.expression, "--device", file, "-o", "json"}
							if scenario.driver != "" {
								arguments = append(arguments, "--driver", scenario.driver)
							}
							if env == environment.NewExpressions {
								arguments = append(arguments, "--expression-env=new", fmt.Sprintf(
									"--feature-gates=DRAConsumableCapacity=%v,DRAListTypeAttributes=%v", capacity, list))
							}
							check(t, arguments, scenario.expectCompileError, scenario.expectMatchError, scenario.expectMatch)
						}
						t.Run(fmt.Sprintf("%s/capacity=%v/lists=%v", env, capacity, list), run)
					}
				}
			}
		})
	}
}

func check(t *testing.T, arguments []string, compileError, matchError string, match bool) {
	command := exec.Command(os.Getenv("HEDDLE_BINARY"), arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if want := compileError + matchError; want != "" {
		if command.ProcessState.ExitCode() != 3 || stdout.Len() != 0 {
			t.Fatalf("expected exit 3 and no output, got %v, %q, %q", err, stdout.String(), stderr.String())
		}
		if !strings.Contains(stderr.String(), want) {
			t.Fatalf("expected an error with %q, got %q", want, stderr.String())
		}
		return
	}
	if want := fmt.Sprintf("{\"result\":%v}\n", match); err != nil || stdout.String() != want {
		t.Fatalf("expected %q, got %v, %q, %q", want, err, stdout.String(), stderr.String())
	}
}
