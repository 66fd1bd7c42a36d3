package cel

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// The API server refuses a claim whose selector may cost too much, so what `heddle translate` writes is compiled, and its
// worst case computed, by the API server's own code.
func TestHeddleSelectors(t *testing.T) {
	cases := map[string]struct{ annotations, limits string }{
		"plain":         {"{}", `{nvidia.com/gpu: 1}`},
		"types":         {`{nvidia.com/use-gputype: "A100, H100,L40S", nvidia.com/nouse-gputype: "A100-PCIE"}`, `{nvidia.com/gpumem: 100}`},
		"uuids":         {`{nvidia.com/use-gpuuuid: "a,b", volcano.sh/vgpu-nouse-gpuuuid: "c"}`, `{volcano.sh/vgpu-memory: 100}`},
		"mig-by-memory": {`{nvidia.com/vgpu-mode: mig}`, `{nvidia.com/gpumem: 8000}`},
		"mig-profile":   {"{}", `{nvidia.com/mig-1g.5gb: 1}`},
		"kai":           {`{gpu-fraction: "0.5"}`, `{cpu: 1}`},
		"ascend":        {"{}", `{huawei.com/Ascend910B4: 1, huawei.com/Ascend910B4-memory: 5000}`},
		"mindcluster":   {"{}", `{huawei.com/Ascend910: 2}`},
		"hygon-type":    {`{hygon.com/use-dcutype: "Z100,K100", hygon.com/nouse-dcutype: "Z100L"}`, `{hygon.com/dcunum: 1}`},
		"cambricon":     {`{cambricon.com/use-mlutype: "MLU370"}`, `{cambricon.com/vmlu: 1}`},
		"amd-type":      {`{amd.com/use-gputype: "MI300X"}`, `{amd.com/gpu: 1}`},
		"amd-partition": {"{}", `{amd.com/cpx_nps4: 1}`},
		"iluvatar":      {"{}", `{iluvatar.ai/BI-V150-vgpu: 1}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: " + c.annotations +
				"}\nspec: {containers: [{name: c, image: i, resources: {limits: " + c.limits + "}}]}\n"
			command := exec.Command(os.Getenv("HEDDLE_BINARY"), "translate", "-f", "-", "-o", "json")
			command.Stdin = strings.NewReader(pod)
			output, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			var list struct {
				Items []struct {
					Kind string
					Spec resourceapi.ResourceClaimSpec
				}
			}
			if err := json.Unmarshal(output, &list); err != nil {
				t.Fatal(err)
			}
			selectors := 0
			for _, item := range list.Items {
				for _, request := range item.Spec.Devices.Requests {
					for _, selector := range request.Exactly.Selectors {
						selectors++
						result := GetCompiler(Features{EnableConsumableCapacity: true}).CompileCELExpression(selector.CEL.Expression, Options{})
						if result.Error != nil || result.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
							t.Errorf("%s: error %v, cost %d", selector.CEL.Expression, result.Error, result.MaxCost)
						}
					}
				}
			}
			if selectors == 0 {
				t.Errorf("no selector in %s", output)
			}
		})
	}
}
