package structured

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
)

// heddleAllocator answers Allocate with `heddle allocate`.
type heddleAllocator struct {
	features internal.Features
	state    internal.AllocatedState
	classes  internal.DeviceClassLister
	slices   []*resourceapi.ResourceSlice
}

func (a *heddleAllocator) Channel() internal.AllocatorChannel { return internal.Experimental }

func newHeddleAllocator(_ context.Context, features internal.Features, state internal.AllocatedState, classes internal.DeviceClassLister,
	slices []*resourceapi.ResourceSlice, _ *cel.Cache) (internal.Allocator, error) {
	return &heddleAllocator{features, state, classes, slices}, nil
}

func gates(features internal.Features) string {
	set := features.Set()
	var texts []string
	for name := range internal.FeaturesAll.Set() {
		for _, gate := range strings.Split(name, "+") {
			texts = append(texts, fmt.Sprintf("%s=%v", gate, set.Has(name)))
		}
	}
	sort.Strings(texts)
	return strings.Join(texts, ",")
}

// takenClaims expresses the allocated state as claims: one a device or share, the consumed capacity on a device's first share.
func (a *heddleAllocator) takenClaims() []any {
	var claims []any
	add := func(device internal.DeviceID, share *types.UID, consumed internal.ConsumedCapacity) {
		result := resourceapi.DeviceRequestAllocationResult{
			Request: "taken", Driver: device.Driver.String(), Pool: device.Pool.String(), Device: device.Device.String(), ShareID: share,
		}
		if consumed != nil {
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
			for name, quantity := range consumed {
				result.ConsumedCapacity[name] = quantity.DeepCopy()
			}
		}
		claim := &resourceapi.ResourceClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "taken", Name: fmt.Sprintf("taken-%d", len(claims)), UID: types.UID(fmt.Sprintf("taken-%d", len(claims)))},
		}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
		claims = append(claims, claim)
	}
	for device := range a.state.AllocatedDevices {
		add(device, nil, nil)
	}
	charged := map[internal.DeviceID]bool{}
	for shared := range a.state.AllocatedSharedDeviceIDs {
		device := shared.GetDeviceID()
		share := types.UID(shared.ShareID.String())
		var consumed internal.ConsumedCapacity
		if !charged[device] {
			consumed = a.state.AggregatedCapacity[device]
			charged[device] = true
		}
		add(device, &share, consumed)
	}
	for device, consumed := range a.state.AggregatedCapacity {
		if !charged[device] {
			share := types.UID("00000000-0000-4000-8000-000000000000")
			add(device, &share, consumed)
		}
	}
	return claims
}

// keepValue writes a quantity that its own String() would not give back (there is no suffix beyond E) with an exponent.
func keepValue(quantity resource.Quantity) resource.Quantity {
	quantity = quantity.DeepCopy()
	if again, err := resource.ParseQuantity(quantity.String()); err != nil || again.Cmp(quantity) != 0 {
		return resource.MustParse(quantity.AsDec().String() + "e0")
	}
	return quantity
}

func keepCapacity(device *resourceapi.Device) {
	for name, capacity := range device.Capacity {
		capacity.Value = keepValue(capacity.Value)
		if policy := capacity.RequestPolicy; policy != nil && policy.Default != nil {
			kept := keepValue(*policy.Default)
			policy.Default = &kept
		}
		device.Capacity[name] = capacity
	}
}

func keepRequests(claim *resourceapi.ResourceClaim) {
	for i := range claim.Spec.Devices.Requests {
		exactly := claim.Spec.Devices.Requests[i].Exactly
		if exactly == nil || exactly.Capacity == nil {
			continue
		}
		for name, quantity := range exactly.Capacity.Requests {
			exactly.Capacity.Requests[name] = keepValue(quantity)
		}
	}
}

func (a *heddleAllocator) input(node *v1.Node, claims []*resourceapi.ResourceClaim) ([]byte, error) {
	var items []any
	copied := node.DeepCopy()
	copied.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	items = append(items, copied)
	classes, err := a.classes.List()
	if err != nil {
		return nil, err
	}
	for _, class := range classes {
		class = class.DeepCopy()
		class.TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass"}
		items = append(items, class)
	}
	for _, slice := range a.slices {
		slice = slice.DeepCopy()
		for i := range slice.Spec.Devices {
			keepCapacity(&slice.Spec.Devices[i])
		}
		slice.TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}
		items = append(items, slice)
	}
	items = append(items, a.takenClaims()...)
	for _, claim := range claims {
		claim = claim.DeepCopy()
		keepRequests(claim)
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}
		items = append(items, claim)
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

func (a *heddleAllocator) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	input, err := a.input(node, claims)
	if err != nil {
		return nil, err
	}
	command := exec.Command(os.Getenv("HEDDLE_BINARY"), "allocate", "--without-defaults", "-f", "-", "--node", node.Name, "--feature-gates="+gates(a.features), "-o", "json")
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &stdout, &stderr
	_ = command.Run()
	switch code := command.ProcessState.ExitCode(); code {
	case 0:
	case 2:
		// Upstream tells apart "no" and "no, and there were invalid pools" by an error.
		if strings.Contains(stderr.String(), "invalid resource pools were encountered") {
			return nil, fmt.Errorf("%w%s", internal.ErrFailedAllocationOnNode, stderr.String())
		}
		return nil, nil
	case 3:
		return nil, errors.New(stderr.String())
	default:
		return nil, fmt.Errorf("unexpected exit %d: %s", code, stderr.String())
	}
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	var whole struct {
		APIVersion string                      `json:"apiVersion"`
		Kind       string                      `json:"kind"`
		Items      []resourceapi.ResourceClaim `json:"items"`
	}
	if err := decoder.Decode(&whole); err != nil {
		return nil, fmt.Errorf("output is no List: %w", err)
	}
	results := []resourceapi.AllocationResult{}
	for _, item := range whole.Items {
		for i := range item.Status.Allocation.Devices.Results {
			result := &item.Status.Allocation.Devices.Results[i]
			result.ConsumedCapacity = allocatortesting.Normalized(result.ConsumedCapacity)
		}
		results = append(results, *item.Status.Allocation)
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results, nil
}

func TestHeddleAllocator(t *testing.T) {
	supported := internal.FeaturesAll
	if os.Getenv("HEDDLE_CONFORMANCE") == "default" {
		supported = internal.Features{
			AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, DeviceBindingAndStatus: true,
			ConsumableCapacity: true, FractionalCapacityRange: true,
		}
	}
	allocatortesting.TestAllocator(t, supported, newHeddleAllocator)
	allocatortesting.TestLexicographicalAllocator(t, supported, newHeddleAllocator)
}
