package stepinto.probe;

import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.*;
import stepinto.probe.program.*;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.rendering.ValueText.Rendered;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.stops.Breakpoint;
import stepinto.probe.wire.Fields;
import stepinto.probe.wire.Limits;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/** The requests that look at a stopped program or change it. */
final class Actions {
    private final Debugging debugging;
    private final Describer describer;
    private final Limits limits;
    /** The frames to look at; null before the first stop. */
    Stack stack;

    Actions(Debugging debugging, Describer describer, Limits limits) {
        this.debugging = debugging;
        this.describer = describer;
        this.limits = limits;
    }

    Fields handle(Request request) throws Refusal {
        debugging.invoker.until(request.deadline);
        debugging.values.begin();
        try {
            return dispatch(request);
        } catch (EvaluationFailed failed) {
            throw new Refusal(failed.timedOut ? "timeout" : "evaluation", failed.getMessage());
        }
    }

    private Fields dispatch(Request request) throws Refusal, EvaluationFailed {
        int start = Math.max(request.arguments.number("start", 0), 0);
        switch (request.action) {
            case "locals":
                Variables variables = Variables.of(frame(request));
                int total = variables.values.size();
                int first = Math.min(start, total);
                Fields locals =
                        describer.values(variables.values.subList(first, total), first, total);
                Describer.addNotes(locals, variables.notes);
                return locals;
            case "stack":
                return describer.stack(stack, Math.min(start, stack.size()));
            case "threads":
                return new Fields().with("threads", threads());
            case "evaluate":
                Value value = valueOf(request);
                Rendered text = debugging.values.render(value, start);
                Named named = new Named(request.arguments.text("expression"), null, value);
                List<Fields> values = Collections.singletonList(describer.value(named, text));
                Fields answer = new Fields().with("values", values);
                return text.nextStart == Rendered.END
                        ? answer : answer.with("next_start", text.nextStart);
            case "fields":
                ValueText.Page page = debugging.values.page(valueOf(request), start);
                return describer.values(page.values, start, page.size);
            case "run_code":
                String code = request.arguments.text("code");
                debugging.evaluator.runCode(code, frame(request));
                return new Fields();
            case "set_breakpoint":
                List<String> notes = new ArrayList<>();
                Breakpoint point = debugging.table.add(request.arguments, notes);
                List<Breakpoint> points = Collections.singletonList(point);
                return new Fields()
                        .with("breakpoints", debugging.table.describe(points))
                        .with("notes", notes);
            case "remove_breakpoint":
                debugging.table.remove(request.arguments.number("number", 0));
                return new Fields();
            case "list_breakpoints":
                return new Fields();
            default:
                throw new Refusal("there is no action " + request.action);
        }
    }

    private FrameAt frame(Request request) throws Refusal {
        int index = request.arguments.number("frame", 0);
        if (stack == null || stack.isEmpty()) {
            throw new Refusal("the program has no frame to look at here");
        }
        if (index < 0 || index >= stack.size()) {
            int last = stack.size() - 1;
            throw new Refusal(
                    "there is no frame " + index + "; the stack has frames 0 to " + last);
        }
        return stack.frames.get(index);
    }

    private Value valueOf(Request request) throws Refusal, EvaluationFailed {
        String expression = request.arguments.text("expression");
        return debugging.evaluator.evaluate(expression, frame(request));
    }

    /** Every thread that is in the program's code, and where; the current one first. */
    private List<Object> threads() {
        ThreadReference current = stack == null ? debugging.mainThread : stack.thread;
        Set<ThreadReference> threads = new LinkedHashSet<>();
        threads.add(current);
        threads.addAll(debugging.diagnosis.ownThreads(debugging.mainThread));
        List<Object> shown = new ArrayList<>();
        for (ThreadReference thread : threads) {
            Stack frames = new Stack(thread, debugging.program);
            int end = Math.min(frames.size(), limits.maxFrames);
            shown.add(new Fields()
                    .with("name", thread.name())
                    .with("current", thread.equals(current))
                    .with("doing", debugging.diagnosis.doing(thread))
                    .with("frames", describer.frames(frames, 0, end)));
        }
        return shown;
    }
}
