# That kvrail-perf says what it cannot do with the memory of a GPU, and why, and that it fails then.
#
#   cmake -D PERF=<kvrail-perf> -D DRIVER=<the fake> -D PROVIDER_DIR=<of the scripted provider>
#         -P kvrail_perf_device_refusals.cmake
cmake_minimum_required(VERSION 3.25)

set(ENV{FI_PROVIDER_PATH} "${PROVIDER_DIR}")

# expect_refusal(<text> <arguments>): an error, not a crash, whose words have that text.
function(expect_refusal text)
  execute_process(COMMAND "${PERF}" pair --tests write --page-bytes 4K --pages 4 --rounds 1 ${ARGN}
                  RESULT_VARIABLE result ERROR_VARIABLE words OUTPUT_VARIABLE printed)
  string(FIND "${words}" "${text}" found)
  if(found EQUAL -1 OR NOT result MATCHES "^(1|105)$")
    message(FATAL_ERROR "${ARGN}: exit ${result}, not with '${text}' but:\n${words}${printed}")
  endif()
endfunction()

foreach(text IN ITEMS gpu cuda cuda: cuda:x cuda:1x cuda:-1 cuda:99999)
  expect_refusal("--device '${text}': choose host, or cuda:N" "--device=${text}")
endforeach()
expect_refusal("--target-device 'gpu': choose host, or cuda:N" --target-device gpu)

set(no_driver libkvrail_no_such_driver.so)
expect_refusal("--device cuda:0: the CUDA driver '${no_driver}' cannot be used"
               --device cuda:0 --cuda-driver ${no_driver})
expect_refusal("--target-device cuda:0: the CUDA driver '${no_driver}' cannot be used"
               --target-device cuda:0 --cuda-driver ${no_driver})
expect_refusal("GPU 2 does not exist" --device cuda:2 --cuda-driver "${DRIVER}")
expect_refusal("GPU 2 does not exist" --target-device cuda:2 --cuda-driver "${DRIVER}")

# Only a libfabric that was built with CUDA has others.
set(on_gpu --device cuda:0 --cuda-driver "${DRIVER}")
expect_refusal("provider 'tcp' cannot reach a GPU's memory" --provider tcp ${on_gpu})
expect_refusal("use a libfabric that was built with CUDA" --provider shm ${on_gpu})
expect_refusal("registering" --provider scripted ${on_gpu})
# The target alone, whose words come through the source.
expect_refusal("provider 'tcp' cannot reach a GPU's memory" --provider tcp --target-device cuda:1
               --cuda-driver "${DRIVER}")

set(ENV{KVRAIL_SCRIPTED_CUDA} "${DRIVER}")
set(ENV{KVRAIL_FAKE_CUDA_ORDER} none)
expect_refusal("neither orders a NIC's writes nor lets them be flushed" --provider scripted ${on_gpu})
