package stepinto.probe;

import com.sun.jdi.Location;
import com.sun.jdi.ThreadReference;
import java.util.*;
import stepinto.probe.program.Named;
import stepinto.probe.program.Program;
import stepinto.probe.program.Stack;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Rendered;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.stops.BreakpointTable;
import stepinto.probe.wire.Limits;

/** Puts places, values and stops into the fields of an answer, within the launch's limits. */
final class Describer {
    private static final int LINE_CHARS = 200;
    private final Program program;
    private final BreakpointTable table;
    private final ValueText values;
    private final Limits limits;
    /** The thread whose name is not shown: it runs the test or {@code main}. */
    ThreadReference main;

    Describer(Program program, BreakpointTable table, ValueText values, Limits limits) {
        this.program = program;
        this.table = table;
        this.values = values;
        this.limits = limits;
    }

    Map<String, Object> stop(Stop stop, Stack stack) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("reason", stop.reason);
        fields.put("depth", stack.size());
        fields.put("thread", stop.thread.equals(main) ? null : stop.thread.name());
        if (!stack.isEmpty()) {
            Location place = stack.places.get(0);
            place(place, fields);
            fields.put("source", context(place));
        }
        if (stop.exception != null) {
            Map<String, Object> exception = new LinkedHashMap<>();
            exception.put("type", stop.exception.referenceType().name());
            String message = values.message(stop.exception);
            exception.put("message", message == null ? "" : message);
            fields.put("exception", exception);
        }
        if (stop.left != null) {
            Named returned = new Named(stop.left, null, stop.returned);
            fields.put("return_value", value(returned, values.render(stop.returned)));
        }
        return fields;
    }

    /** A page of frames from {@code start} outwards. */
    Map<String, Object> stack(Stack stack, int start) {
        Map<String, Object> fields = new LinkedHashMap<>();
        int end = Math.min(start + limits.maxFrames, stack.size());
        fields.put("frames", frames(stack, start, end));
        if (end < stack.size()) {
            fields.put("next_start", end);
            String note = (stack.size() - end) + " outer frames are not shown";
            addNotes(fields, Collections.singletonList(note));
        }
        return fields;
    }

    List<Object> frames(Stack stack, int start, int end) {
        List<Object> shown = new ArrayList<>();
        for (int index = start; index < end; index++) {
            Map<String, Object> frame = new LinkedHashMap<>();
            Location place = stack.places.get(index);
            frame.put("index", index);
            place(place, frame);
            frame.put("source", program.sources.line(program.path(place), place.lineNumber()));
            shown.add(frame);
        }
        return shown;
    }

    private void place(Location place, Map<String, Object> fields) {
        fields.put("file", program.sources.relative(program.path(place)));
        fields.put("line", place.lineNumber());
        fields.put("function", Program.function(place));
    }

    /** As many values as the limits allow, from {@code start} on. */
    Map<String, Object> values(List<Named> items, int start, int total) {
        Map<String, Object> fields = new LinkedHashMap<>();
        List<Object> shown = new ArrayList<>();
        for (Named item : items.subList(0, Math.min(items.size(), limits.maxValues))) {
            shown.add(value(item, values.render(item.value)));
        }
        fields.put("values", shown);
        int next = start + shown.size();
        if (next < total) {
            fields.put("next_start", next);
            String note = shown.size() + " of " + total + " shown";
            addNotes(fields, Collections.singletonList(note));
        }
        return fields;
    }

    Map<String, Object> value(Named item, Rendered text) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("name", item.name);
        fields.put("type", TypeNames.of(item.value, item.declared));
        fields.put("text", text.text);
        fields.put("truncated", text.truncated);
        return fields;
    }

    /** Numbered lines around a stop: {@code ->} marks the current one, {@code *} a breakpoint. */
    private List<Object> context(Location place) {
        String path = program.path(place);
        String[] lines = program.sources.lines(path);
        int current = place.lineNumber();
        List<Object> shown = new ArrayList<>();
        int first = Math.max(current - limits.contextLines, 1);
        int last = Math.min(current + limits.contextLines, lines.length);
        for (int line = first; line <= last; line++) {
            StringBuilder text = new StringBuilder(line == current ? "-> " : "   ");
            text.append(table.watches(path, line) ? "* " : "  ");
            String number = Integer.toString(line);
            text.append("     ", 0, Math.max(5 - number.length(), 0));
            text.append(number).append("  ").append(clean(lines[line - 1]));
            shown.add(text.toString());
        }
        return shown;
    }

    /** Without what a terminal would obey, bounded, and without blanks at its end. */
    private static String clean(String line) {
        StringBuilder text = new StringBuilder();
        int last = 0;
        for (int at = 0; at < Math.min(line.length(), LINE_CHARS); at++) {
            char letter = line.charAt(at);
            if (letter != '\t' && Character.isISOControl(letter)) {
                text.append(String.format("\\x%02x", (int) letter));
            } else {
                text.append(letter);
            }
            last = letter > ' ' ? text.length() : last;
        }
        text.setLength(last);
        return text.toString();
    }

    /** Put notes before those that an answer has. */
    static void addNotes(Map<String, Object> answer, List<String> notes) {
        List<Object> all = new ArrayList<Object>(notes);
        Object own = answer.get("notes");
        if (own instanceof List) {
            all.addAll((List<?>) own);
        }
        answer.put("notes", all);
    }
}
