# longshore as a container: docker build -t longshore .
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir ".[api,http,fast,postgres]"

FROM python:3.12-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 LONGSHORE_METRICS_HOST=0.0.0.0
RUN useradd --system --create-home longshore && install -d -o longshore /run/longshore
USER longshore
WORKDIR /home/longshore
# A worker may be process 1: it reaps what its jobs leave behind.
ENTRYPOINT ["longshore"]
CMD ["worker"]
