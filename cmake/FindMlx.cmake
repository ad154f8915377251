# Finds MLX in the private environment that script/bootstrap makes (.deps/venv), or wherever MLX_DIR points.
if(NOT MLX_DIR)
  file(GLOB ANABRANCH_MLX_DIRS ${CMAKE_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/mlx/share/cmake/MLX)
  list(LENGTH ANABRANCH_MLX_DIRS n)
  if(n EQUAL 0)
    message(FATAL_ERROR "MLX was not found. Run script/bootstrap --test first (or pass -DMLX_DIR=...).")
  endif()
  list(GET ANABRANCH_MLX_DIRS 0 MLX_DIR)
endif()
find_package(MLX CONFIG REQUIRED PATHS ${MLX_DIR} NO_DEFAULT_PATH)
# MLX's headers warn under -Wall: treat them as system headers.
get_target_property(_mlx_inc mlx INTERFACE_INCLUDE_DIRECTORIES)
set_target_properties(mlx PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_mlx_inc}")
