# An image that runs alf. From the folder of the repository:
#
#   docker build --tag alf .
#   docker run --rm --volume alf-runs:/runs alf train alf:impala_cartpole.gin -o mine
#   docker run --rm --volume alf-runs:/runs alf evaluate mine
#
# EXTRAS are those of setup.py, such as --build-arg EXTRAS=atari,plot. For GPUs, on a host with NVIDIA's driver and its
# container toolkit:
#
#   docker build --build-arg EXTRAS=atari,cuda --tag alf-gpu .
#   docker run --rm --gpus=all --volume alf-runs:/runs alf-gpu train ALE/Pong-v5 --algorithm=impala -o pong

FROM python:3.13-slim AS build
WORKDIR /source
COPY setup.py pyproject.toml MANIFEST.in README.md LICENSE ./
COPY alf alf
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .

FROM python:3.13-slim
ARG EXTRAS=""
# What NVIDIA's container toolkit shows to the container; without effect on a host without it.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}"
RUN useradd --create-home alf && mkdir /runs && chown alf /runs
USER alf
WORKDIR /runs
ENTRYPOINT ["alf"]
CMD ["--help"]
