// Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
//
// A device of the type "GPU" for machines without one.
//
// TensorFlow registers its kernels for GPUs on every machine. This device has just these: each takes the
// constraints and the host memory arguments of a kernel for GPUs, and computes by the kernel for CPUs. So
// TensorFlow places operations, refuses them and copies tensors as with a real GPU. It does not show what XLA,
// CUDA and memory do there.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/copy_tensor.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorflow {
namespace {

struct Traffic {
  std::atomic<int64_t> count{0};
  std::atomic<int64_t> bytes{0};

  void Add(const Tensor& tensor) {
    if (tensor.TotalBytes() == 0) return;  // an order of operations, without numbers
    ++count;
    bytes += tensor.TotalBytes();
  }
};

Traffic to_device, to_host;

// Copies the numbers, as a real device would, so that no two tensors share a buffer.
void Copy(const Tensor& from, Tensor* to) {
  if (from.TotalBytes() == 0) return;
  StringPiece source = from.tensor_data(), target = to->tensor_data();
  memcpy(const_cast<char*>(target.data()), source.data(), source.size());
}

class PretendContext : public DeviceContext {
 public:
  void CopyCPUTensorToDevice(const Tensor* cpu, Device*, Tensor* device, StatusCallback done,
                             bool) const override {
    to_device.Add(*cpu);
    Copy(*cpu, device);
    done(absl::OkStatus());
  }

  void CopyDeviceTensorToCPU(const Tensor* device, absl::string_view, Device*, Tensor* cpu,
                             StatusCallback done) override {
    to_host.Add(*device);
    Copy(*device, cpu);
    done(absl::OkStatus());
  }

  void CopyTensorInSameDevice(const Tensor* input, Device*, Tensor* output,
                              StatusCallback done) const override {
    Copy(*input, output);
    done(absl::OkStatus());
  }
};

// From the device's memory to the host memory of its kernels, and back.
void CopyWithinDevice(DeviceContext*, DeviceContext*, Device*, Device*, AllocatorAttributes from,
                      AllocatorAttributes to, const Tensor* input, Tensor* output, int, StatusCallback done) {
  if (from.on_host() != to.on_host()) (to.on_host() ? to_host : to_device).Add(*input);
  Copy(*input, output);
  done(absl::OkStatus());
}

class PretendGpu : public LocalDevice {
 public:
  PretendGpu(const SessionOptions& options, const DeviceAttributes& attributes)
      : LocalDevice(options, attributes), context_(new PretendContext) {
    info_.default_context = context_;
    info_.gpu_id = 0;
    set_tensorflow_accelerator_device_info(&info_);
  }
  ~PretendGpu() override { context_->Unref(); }

  Allocator* GetAllocator(AllocatorAttributes) override { return cpu_allocator(); }
  absl::Status Sync() override { return absl::OkStatus(); }

  absl::Status TryGetDeviceContext(DeviceContext** out) override {
    context_->Ref();
    *out = context_;
    return absl::OkStatus();
  }

  absl::Status MakeTensorFromProto(const TensorProto& proto, const AllocatorAttributes, Tensor* tensor) override {
    return tensor->FromProto(cpu_allocator(), proto)
               ? absl::OkStatus()
               : errors::InvalidArgument("a proto is not a tensor");
  }

  void CopyTensorInSameDevice(const Tensor* input, Tensor* output, const DeviceContext*,
                              StatusCallback done) override {
    Copy(*input, output);
    done(absl::OkStatus());
  }

 private:
  PretendContext* context_;
  AcceleratorDeviceInfo info_;
};

class PretendGpuFactory : public DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr && *visible == '\0') return absl::OkStatus();
    devices->push_back("/physical_device:GPU:0");
    return absl::OkStatus();
  }

  absl::Status GetDeviceDetails(int, std::unordered_map<std::string, std::string>* details) override {
    (*details)["device_name"] = "pretended";
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const SessionOptions& options, const std::string& prefix,
                             std::vector<std::unique_ptr<Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto found = counts.find("GPU");
    if (found != counts.end() && found->second == 0) return absl::OkStatus();  // hidden
    devices->push_back(std::make_unique<PretendGpu>(
        options, Device::BuildDeviceAttributes(prefix + "/device:GPU:0", DeviceType("GPU"), Bytes(int64_t{1} << 34),
                                               DeviceLocality(), "pretended")));
    return absl::OkStatus();
  }
};

// Where tensors are in host memory is what the kernel for GPUs says; what is computed, the kernel for CPUs.
class Kernel : public OpKernel {
 public:
  Kernel(OpKernelConstruction* construction, OpKernel* inner) : OpKernel(construction), inner_(inner) {}
  void Compute(OpKernelContext* context) override { inner_->Compute(context); }
  bool IsExpensive() override { return inner_->IsExpensive(); }
  const Tensor* const_tensor() const override { return inner_->const_tensor(); }

 private:
  std::unique_ptr<OpKernel> inner_;
};

class AsyncKernel : public AsyncOpKernel {
 public:
  AsyncKernel(OpKernelConstruction* construction, OpKernel* inner)
      : AsyncOpKernel(construction), inner_(inner) {}
  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    inner_->AsAsync()->ComputeAsync(context, std::move(done));
  }
  bool IsExpensive() override { return inner_->IsExpensive(); }

 private:
  std::unique_ptr<OpKernel> inner_;
};

class KernelFactory : public kernel_factory::OpKernelFactory {
 public:
  OpKernel* Create(OpKernelConstruction* context) override {
    std::shared_ptr<const NodeProperties> properties;
    const OpRegistryInterface* registry = OpRegistry::Global();
    if (context->function_library() != nullptr) {
      registry = context->function_library()->GetFunctionLibraryDefinition();
    }
    OpKernel* inner = nullptr;
    absl::Status status = NodeProperties::CreateFromNodeDef(context->def(), registry, &properties);
    if (status.ok()) {
      status = CreateOpKernel(DeviceType("CPU"), context->device(), cpu_allocator(),
                              context->function_library(), context->resource_manager(), properties,
                              context->graph_def_version(), &inner);
    }
    if (!status.ok()) {
      context->SetStatus(status);
      return nullptr;
    }
    if (inner->AsAsync() != nullptr) return new AsyncKernel(context, inner);
    return new Kernel(context, inner);
  }
};

bool Register() {
  TF_CHECK_OK(CopyTensor::Register(DeviceType("GPU"), DeviceType("GPU"), CopyWithinDevice, true));
  DeviceFactory::Register("GPU", std::make_unique<PretendGpuFactory>(), 220, /*is_pluggable_device=*/true);
  const KernelList kernels = GetAllRegisteredKernels();
  for (const KernelDef& kernel : kernels.kernel()) {
    if (kernel.device_type() != "GPU") continue;
    auto* copy = new KernelDef(kernel);
    // TensorFlow takes the kernel of the highest priority.
    copy->set_priority(kernel.priority() + 1);
    kernel_factory::OpKernelRegistrar(copy, "Pretend" + kernel.op(), std::make_unique<KernelFactory>());
  }
  return true;
}

const bool is_registered = Register();

}  // namespace
}  // namespace tensorflow

// Writes the copies of numbers since the start: to the device, their bytes, to the host, their bytes.
extern "C" void alf_read_traffic(int64_t* out) {
  out[0] = tensorflow::to_device.count;
  out[1] = tensorflow::to_device.bytes;
  out[2] = tensorflow::to_host.count;
  out[3] = tensorflow::to_host.bytes;
}
