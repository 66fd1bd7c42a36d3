// The part of the Ascend device management interface (libdcmi.so) that Heddle calls and the simulated machine answers:
// our own declarations of the vendor's ABI, since no package carries its header. Names, values and sizes are those of
// dcmi_interface_api.h as Ascend/mind-cluster (22bb3d98, Apache-2.0) publishes it; the sizes below were read from it.
// Addressing is (card, device in the card); memory sizes are in MiB, power in tenths of a watt.
#pragma once
/* NOLINTBEGIN(readability-identifier-naming): the vendor's names */

#include <cstddef>
#include <cstdint>

inline constexpr int DCMI_OK = 0;
inline constexpr int DCMI_ERR_CODE_INVALID_PARAMETER = -8001;
inline constexpr int DCMI_ERR_CODE_OPER_NOT_PERMITTED = -8002;
inline constexpr int DCMI_ERR_CODE_TIME_OUT = -8006;
inline constexpr int DCMI_ERR_CODE_DEVICE_NOT_EXIST = -8008;
inline constexpr int DCMI_ERR_CODE_NOT_READY = -8012;
inline constexpr int DCMI_ERR_CODE_RESOURCE_OCCUPIED = -8020;
inline constexpr int DCMI_ERR_CODE_NOT_SUPPORT = -8255;

enum dcmi_unit_type { NPU_TYPE = 0, MCU_TYPE = 1, CPU_TYPE = 2, INVALID_TYPE = 0xFF };
enum dcmi_die_type { NDIE = 0, VDIE = 1 };
enum dcmi_device_type {
  DCMI_DEVICE_TYPE_DDR = 0,
  DCMI_DEVICE_TYPE_SRAM = 1,
  DCMI_DEVICE_TYPE_HBM = 2,
  DCMI_DEVICE_TYPE_NPU = 3
};
// dcmi_get_device_utilization_rate.
inline constexpr int DCMI_UTILIZATION_RATE_DDR = 1;
inline constexpr int DCMI_UTILIZATION_RATE_AICORE = 2;
inline constexpr int DCMI_UTILIZATION_RATE_HBM = 6;
inline constexpr int DCMI_UTILIZATION_RATE_NPU = 13;
// dcmi_get_device_info.
inline constexpr unsigned DCMI_MAIN_CMD_CHIP_INF = 12;
inline constexpr unsigned DCMI_CHIP_INF_SUB_CMD_SPOD_INFO = 1;
inline constexpr unsigned DCMI_MAIN_CMD_VDEV_MNG = 52;
inline constexpr unsigned DCMI_VMNG_SUB_CMD_GET_VDEV_RESOURCE = 0;
inline constexpr unsigned DCMI_VMNG_SUB_CMD_GET_TOTAL_RESOURCE = 1;
inline constexpr unsigned DCMI_VMNG_SUB_CMD_GET_FREE_RESOURCE = 2;
inline constexpr int DCMI_SOC_SPLIT_MAX = 32;

struct dcmi_chip_info {
  unsigned char chip_type[32];
  unsigned char chip_name[32];
  unsigned char chip_ver[32];
  unsigned int aicore_cnt;
};
struct dcmi_chip_info_v2 {
  unsigned char chip_type[32];
  unsigned char chip_name[32];
  unsigned char chip_ver[32];
  unsigned int aicore_cnt;
  unsigned char npu_name[32];
};
struct dcmi_pcie_info_all {
  unsigned int venderid;
  unsigned int subvenderid;
  unsigned int deviceid;
  unsigned int subdeviceid;
  int domain;
  unsigned int bdf_busid;
  unsigned int bdf_deviceid;
  unsigned int bdf_funcid;
  unsigned char reserve[32];
};
struct dcmi_die_id {
  unsigned int soc_die[5];
};
struct dcmi_hbm_info {
  unsigned long long memory_size;  // MiB
  unsigned int freq;
  unsigned long long memory_usage;  // MiB
  int temp;
  unsigned int bandwith_util_rate;  // NOLINT: so spelled
};
struct dcmi_get_memory_info_stru {
  unsigned long long memory_size;       // MiB
  unsigned long long memory_available;  // MiB
  unsigned int freq;
  unsigned long hugepagesize;
  unsigned long hugepages_total;
  unsigned long hugepages_free;
  unsigned int utiliza;
  unsigned char reserve[60];
};
struct dcmi_ecc_info {
  int enable_flag;
  unsigned int single_bit_error_cnt;
  unsigned int double_bit_error_cnt;
  unsigned int total_single_bit_error_cnt;
  unsigned int total_double_bit_error_cnt;
  unsigned int single_bit_isolated_pages_cnt;
  unsigned int double_bit_isolated_pages_cnt;
  unsigned int single_bit_next_isolated_pages_cnt;
  unsigned int double_bit_next_isolated_pages_cnt;
};
struct dcmi_proc_mem_info {
  int proc_id;
  unsigned long proc_mem_usage;  // bytes
};
struct dcmi_spod_info {
  unsigned int sdid;
  unsigned int scale_type;
  unsigned int super_pod_id;
  unsigned int server_id;
  unsigned int reserve[8];
};
// vNPUs.
struct dcmi_base_resource {
  unsigned long long token;
  unsigned long long token_max;
  unsigned long long task_timeout;
  unsigned int vfg_id;
  unsigned char vip_mode;
  unsigned char reserved[31];
};
struct dcmi_computing_resource {
  float aic;  // AI cores
  float aiv;
  unsigned short dsa;
  unsigned short rtsq;
  unsigned short acsq;
  unsigned short cdqm;
  unsigned short c_core;
  unsigned short ffts;
  unsigned short sdma;
  unsigned short pcie_dma;
  unsigned long long memory_size;  // MiB
  unsigned int event_id;
  unsigned int notify_id;
  unsigned int stream_id;
  unsigned int model_id;
  unsigned short topic_schedule_aicpu;
  unsigned short host_ctrl_cpu;
  unsigned short host_aicpu;
  unsigned short device_aicpu;
  unsigned short topic_ctrl_cpu_slot;
  unsigned char reserved[32];
};
struct dcmi_media_resource {
  float jpegd;
  float jpege;
  float vpc;
  float vdec;
  float pngd;
  float venc;
  unsigned char reserved[32];
};
struct dcmi_create_vdev_res_stru {
  unsigned int vdev_id;
  unsigned int vfg_id;
  char template_name[32];
  unsigned char reserved[64];
};
struct dcmi_create_vdev_out {
  unsigned int vdev_id;
  unsigned int pcie_bus;
  unsigned int pcie_device;
  unsigned int pcie_func;
  unsigned int vfg_id;
  unsigned char reserved[32];
};
struct dcmi_vdev_query_info {
  char name[16];  // of the template
  unsigned int status;
  unsigned int is_container_used;
  unsigned int vfid;
  unsigned int vfg_id;
  unsigned long long container_id;
  dcmi_base_resource base;
  dcmi_computing_resource computing;
  dcmi_media_resource media;
};
struct dcmi_vdev_query_stru {
  unsigned int vdev_id;  // which is meant
  dcmi_vdev_query_info query_info;
};
struct dcmi_soc_free_resource {
  unsigned int vfg_num;
  unsigned int vfg_bitmap;
  dcmi_base_resource base;
  dcmi_computing_resource computing;
  dcmi_media_resource media;
};
struct dcmi_soc_total_resource {
  unsigned int vdev_num;
  unsigned int vdev_id[DCMI_SOC_SPLIT_MAX];
  unsigned int vfg_num;
  unsigned int vfg_bitmap;
  dcmi_base_resource base;
  dcmi_computing_resource computing;
  dcmi_media_resource media;
};

static_assert(sizeof(dcmi_chip_info) == 100 && sizeof(dcmi_chip_info_v2) == 132);
static_assert(offsetof(dcmi_chip_info_v2, aicore_cnt) == 96 && offsetof(dcmi_chip_info_v2, npu_name) == 100);
static_assert(sizeof(dcmi_pcie_info_all) == 64 && offsetof(dcmi_pcie_info_all, domain) == 16);
static_assert(sizeof(dcmi_die_id) == 20);
static_assert(sizeof(dcmi_hbm_info) == 32 && offsetof(dcmi_hbm_info, memory_usage) == 16);
static_assert(sizeof(dcmi_get_memory_info_stru) == 112 && offsetof(dcmi_get_memory_info_stru, utiliza) == 48);
static_assert(sizeof(dcmi_ecc_info) == 36);
static_assert(sizeof(dcmi_proc_mem_info) == 16 && offsetof(dcmi_proc_mem_info, proc_mem_usage) == 8);
static_assert(sizeof(dcmi_spod_info) == 48);
static_assert(sizeof(dcmi_create_vdev_res_stru) == 104 && sizeof(dcmi_create_vdev_out) == 52);
static_assert(sizeof(dcmi_vdev_query_stru) == 264 && offsetof(dcmi_vdev_query_stru, query_info) == 8);
static_assert(sizeof(dcmi_soc_free_resource) == 224 && sizeof(dcmi_soc_total_resource) == 360);

extern "C" {
int dcmi_init(void);
int dcmi_get_card_list(int* card_num, int* card_list, int list_len);
int dcmi_get_device_num_in_card(int card_id, int* device_num);
int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id);
int dcmi_get_device_type(int card_id, int device_id, dcmi_unit_type* device_type);
int dcmi_get_device_logic_id(int* device_logic_id, int card_id, int device_id);
int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int* phyid);
int dcmi_get_device_logicid_from_phyid(unsigned int phyid, unsigned int* logicid);
int dcmi_get_card_id_device_id_from_phyid(int* card_id, int* device_id, unsigned int device_phy_id);
int dcmi_get_device_chip_info(int card_id, int device_id, dcmi_chip_info* chip_info);
int dcmi_get_device_chip_info_v2(int card_id, int device_id, dcmi_chip_info_v2* chip_info);
int dcmi_get_device_pcie_info_v2(int card_id, int device_id, dcmi_pcie_info_all* pcie_info);
int dcmi_get_device_die_v2(int card_id, int device_id, dcmi_die_type input_type, dcmi_die_id* die_id);
int dcmi_get_device_hbm_info(int card_id, int device_id, dcmi_hbm_info* hbm_info);
int dcmi_get_device_memory_info_v3(int card_id, int device_id, dcmi_get_memory_info_stru* memory_info);
int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int* utilization_rate);
int dcmi_get_device_temperature(int card_id, int device_id, int* temperature);
int dcmi_get_device_power_info(int card_id, int device_id, int* power);
int dcmi_get_device_health(int card_id, int device_id, unsigned int* health);
int dcmi_get_device_errorcode_v2(int card_id, int device_id, int* error_count, unsigned int* error_code_list,
                                 unsigned int list_len);
int dcmi_get_device_ecc_info(int card_id, int device_id, dcmi_device_type input_type, dcmi_ecc_info* device_ecc_info);
int dcmi_get_device_resource_info(int card_id, int device_id, dcmi_proc_mem_info* proc_info, int* proc_num);
int dcmi_get_device_info(int card_id, int device_id, unsigned int main_cmd, unsigned int sub_cmd, void* buf,
                         unsigned int* size);
int dcmi_create_vdevice(int card_id, int device_id, dcmi_create_vdev_res_stru* vdev, dcmi_create_vdev_out* out);
int dcmi_set_destroy_vdevice(int card_id, int device_id, unsigned int vdevid);
int dcmi_get_driver_version(char* driver_ver, unsigned int len);
int dcmi_get_dcmi_version(char* dcmi_ver, unsigned int len);
}
/* NOLINTEND(readability-identifier-naming) */
